"""`/console/invoices/{id}/files/{kind}`: the files of an invoice, a credit note or a receipt.

They are those of the admin API, for whoever has a session and no admin key in the browser.
"""

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import SQLAlchemyError

from billing.documents.forms.en16931 import Profile
from gateway.admin.documents.service import MEDIA, FileKind, Files, Syntax
from gateway.console.login import door_of, is_signed_in
from gateway.console.render import guarded, page
from gateway.errors import ApiError
from gateway.fields import Label

router = APIRouter(prefix="/console", include_in_schema=False)

TITLE = "Document"


@router.get("/invoices/focus.csv")
async def focus_file(
    request: Request, files: Files, period: str = "", organization: str | None = None
) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    try:
        rows = await files.focus(period, organization)
    except ApiError as refused:
        return _refused(refused, "")
    name = f'attachment; filename="focus-{period}.csv"'
    headers = {"content-disposition": name}
    return guarded(StreamingResponse(rows, media_type=MEDIA[FileKind.CSV], headers=headers))


@router.get("/invoices/{document_id}/files/{kind}")
async def file(
    request: Request,
    files: Files,
    document_id: Label,
    kind: str,
    syntax: str = Syntax.CII,
    profile: str = Profile.EN16931,
) -> Response:
    """Which file is read after who asks: a stranger learns nothing of it."""
    if not await is_signed_in(request):
        return door_of(request)
    try:
        form, of_syntax, of_profile = FileKind(kind), Syntax(syntax), Profile(profile)
    except ValueError:
        return _refused(ApiError(404, f"It has no file '{kind}'.", code="not_found"), document_id)
    try:
        answer = await files.file(document_id, form, syntax=of_syntax, profile=of_profile)
    except ApiError as refused:
        return _refused(refused, document_id)
    except SQLAlchemyError:
        return page("away.html", 503, title=TITLE)
    return guarded(answer.response())


def _refused(refused: ApiError, document_id: str) -> Response:
    return page("no_file.html", refused.status, problem=refused.message, document_id=document_id)
