"""`/console/policies/{version}`: a version, how it differs from the active one, its activation."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from gateway.admin.outcomes.service import OutcomeService
from gateway.admin.policies.service import Checker, Policies, PolicyChecker
from gateway.admin.use_cases import NotThere, attempt
from gateway.admin.versions.schemas import VersionActivationBody
from gateway.admin.versions.service import VersionService
from gateway.console.context import ConsoleContext, context_of
from gateway.console.forms import came_from_us, read_form
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.policies.checked import check_view
from gateway.console.pages.policies.outcomes import (
    HOURS,
    HOURS_USUAL,
    OutcomesView,
    outcomes_view,
)
from gateway.console.pages.policies.page import FORM_BYTES_MAX, HOME, NO_COMMENT
from gateway.console.pages.policies.versions import version_row
from gateway.console.render import guarded, page
from gateway.errors import ApiError
from gateway.fields import INTEGER_MAX

router = APIRouter(prefix="/console", include_in_schema=False)

Version = Annotated[int, Path(ge=1, le=INTEGER_MAX)]


@router.get("/policies/{version}")
async def show_version(
    request: Request, service: Policies, checker: Checker, version: Version, hours: str = ""
) -> Response:
    """With what canary and shadow chose in the last `hours`, which are one of HOURS."""
    if not await is_signed_in(request):
        return door_of(request)
    asked = int(hours) if hours in map(str, HOURS) else HOURS_USUAL
    return await _shown(context_of(request), service, checker, version, hours=asked)


@router.post("/policies/{version}/activate")
async def activate(
    request: Request, service: Policies, checker: Checker, version: Version
) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    if not came_from_us(request):
        return guarded(RedirectResponse(f"{HOME}/{version}", status_code=303))
    desk = context_of(request)
    fields = await read_form(request, bytes_max=FORM_BYTES_MAX)
    comment, expects = fields.get("comment", ""), fields.get("expects", "")
    try:
        body = VersionActivationBody(
            comment=comment, expects=int(expects) if expects.isdecimal() else None
        )
        await service.activate(version, body)
    except ValidationError:
        return await _shown(desk, service, checker, version, 400, NO_COMMENT, comment)
    except ApiError as refused:
        words = refused.message
        return await _shown(desk, service, checker, version, refused.status, words, comment)
    return guarded(RedirectResponse(HOME, status_code=303))


async def _shown(
    desk: ConsoleContext,
    service: VersionService,
    checker: PolicyChecker,
    version: int,
    status: int = 200,
    problem: str = "",
    comment: str = "",
    *,
    hours: int = HOURS_USUAL,
) -> Response:
    try:
        stored = await service.version(version)
        base = await base_of(service)
        outcomes = await _outcomes(desk, version, hours) if stored.activated_us else None
    except SQLAlchemyError:
        return page("away.html", 503, title="Routing policy")
    except ApiError as unknown:
        return page("no_policy.html", unknown.status, version=version)
    text = stored.row.document
    checked = await checker.check(text, version)
    is_active = base is not None and base[0] == version
    return page(
        "policy.html",
        status,
        row=version_row(stored, now_us=desk.now_us),
        check=check_view(text, checked, None if is_active else base),
        active=None if base is None else base[0],
        problem=problem,
        comment=comment,
        outcomes=outcomes,
    )


async def _outcomes(desk: ConsoleContext, version: int, hours: int) -> OutcomesView | None:
    """None of a version that this release cannot read."""
    service = OutcomeService(desk.parts)
    try:
        counted = await desk.outcomes.get((version, hours), lambda: service.counted(version, hours))
    except NotThere:
        return None
    return outcomes_view(counted, hours, now_us=desk.now_us)


async def base_of(service: VersionService) -> tuple[int, str] | None:
    """The active version with its document."""
    active = await attempt(service.versions.active)
    if active is None:
        return None
    stored = await service.version(active.version)
    return stored.row.version, stored.row.document
