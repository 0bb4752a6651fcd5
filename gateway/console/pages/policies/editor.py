"""`/console/policies/edit`: a document is written, checked, tried and stored as a draft."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError

from gateway.admin.policies.schemas import PolicyBody
from gateway.admin.policies.service import Checker, Policies, PolicyChecker
from gateway.admin.versions.service import VersionService
from gateway.console.context import ConsoleContext, context_of
from gateway.console.forms import came_from_us, read_form
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.policies.checked import CheckView, check_view
from gateway.console.pages.policies.page import HOME
from gateway.console.pages.policies.trying import TryView, tried
from gateway.console.pages.policies.version import base_of
from gateway.console.render import guarded, page
from gateway.errors import ApiError
from gateway.policies.source import CHARACTERS_MAX
from routing.policy.attributes import ATTRIBUTES, Attribute

router = APIRouter(prefix="/console", include_in_schema=False)

FORM_BYTES_MAX = 12 * CHARACTERS_MAX
"""A character has four bytes at most, and a byte three in a form."""
NO_DOCUMENT = f"No document came, or one of more than {CHARACTERS_MAX:,} characters."
NO_FIELDS: Mapping[str, str] = MappingProxyType({})
LONG_COMMENT = "A comment has at most 500 characters."


@dataclass(frozen=True, slots=True)
class EditorView:
    check: CheckView
    comment: str
    problem: str
    attributes: tuple[Attribute, ...]
    targets: tuple[str, ...]
    """What `only`, `order` and `ignore` may name."""
    trial: TryView


@router.get("/policies/edit")
async def edit(
    request: Request, service: Policies, checker: Checker, version: int | None = None
) -> Response:
    """The text of a version, else of the active one."""
    if not await is_signed_in(request):
        return door_of(request)
    try:
        base = await base_of(service)
        text = base[1] if base else ""
        if version is not None:
            text = (await service.version(version)).row.document
        return await _shown(context_of(request), checker, text, base)
    except SQLAlchemyError:
        return page("away.html", 503, title="Routing policy")
    except ApiError as unknown:
        return page("no_policy.html", unknown.status, version=version)


@router.post("/policies/edit")
async def check_or_store(request: Request, service: Policies, checker: Checker) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    if not came_from_us(request):
        return guarded(RedirectResponse(f"{HOME}/edit", status_code=303))
    fields = await read_form(request, bytes_max=FORM_BYTES_MAX)
    try:
        return await _answer(context_of(request), service, checker, fields)
    except SQLAlchemyError:
        return page("away.html", 503, title="Routing policy")


async def _answer(
    desk: ConsoleContext, service: VersionService, checker: PolicyChecker, fields: Mapping[str, str]
) -> Response:
    base = await base_of(service)
    if "document" not in fields:
        return await _shown(desk, checker, "", base, status=400, problem=NO_DOCUMENT)
    text = fields["document"].replace("\r\n", "\n")
    show = partial(_shown, desk, checker, text, base, fields=fields)
    if fields.get("act") != "store":
        return await show()
    try:
        stored = await service.create(PolicyBody(document=text, comment=fields.get("comment", "")))
    except ValidationError:
        return await show(status=400, problem=LONG_COMMENT)
    except ApiError as refused:
        problem = "" if refused.errors else refused.message
        return await show(status=refused.status, problem=problem)
    return guarded(RedirectResponse(f"{HOME}/{stored.row.version}", status_code=303))


async def _shown(
    desk: ConsoleContext,
    checker: PolicyChecker,
    text: str,
    base: tuple[int, str] | None,
    *,
    fields: Mapping[str, str] = NO_FIELDS,
    status: int = 200,
    problem: str = "",
) -> Response:
    checked = await checker.check(text)
    names = await checker.names()
    targets = [f"pool:{name}" for name in sorted(names.pools or ())]
    targets += [f"provider:{name}" for name in sorted(names.providers or ())]
    view = EditorView(
        check=check_view(text, checked, base),
        comment=fields.get("comment", ""),
        problem=problem,
        attributes=ATTRIBUTES,
        targets=tuple(targets),
        trial=await tried(desk, checked.examined.policy, fields),
    )
    return page("policy_editor.html", status, view=view)
