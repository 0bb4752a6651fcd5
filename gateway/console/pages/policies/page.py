"""`/console/policies`: versions of the routing policy, what each gateway runs, and the way back."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from gateway.admin.policies.service import Policies
from gateway.admin.use_cases import attempt
from gateway.admin.versions.schemas import VersionRollbackBody
from gateway.admin.versions.service import VersionService
from gateway.api.pages import PageRequest
from gateway.console.context import ConsoleContext, context_of
from gateway.console.forms import came_from_us, read_form
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.policies.versions import (
    GatewayRow,
    VersionRow,
    gateway_rows,
    version_row,
    version_rows,
)
from gateway.console.render import guarded, page
from gateway.errors import ApiError
from gateway.versions.keeper import RunningVersion

router = APIRouter(prefix="/console", include_in_schema=False)

HOME = "/console/policies"
ROWS = 25
FORM_BYTES_MAX = 16 * 1024
NO_COMMENT = "Say why, in at most 500 characters: the comment stands in the history."


@dataclass(frozen=True, slots=True)
class PoliciesView:
    active: VersionRow | None
    gateways: tuple[GatewayRow, ...] | None
    """None while Redis does not answer."""
    versions: tuple[VersionRow, ...]
    after: str | None
    before_active: int | None
    """Where the way back leads."""
    problem: str
    comment: str


@router.get("/policies")
async def policies(request: Request, service: Policies, after: str | None = None) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    return await _shown(context_of(request), service, after=after)


@router.post("/policies/rollback")
async def roll_back(request: Request, service: Policies) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    if not came_from_us(request):
        return guarded(RedirectResponse(HOME, status_code=303))
    fields = await read_form(request, bytes_max=FORM_BYTES_MAX)
    comment = fields.get("comment", "")
    desk = context_of(request)
    try:
        body = VersionRollbackBody(comment=comment)
        await service.rollback(body)
    except ValidationError:
        return await _shown(desk, service, status=400, problem=NO_COMMENT, comment=comment)
    except ApiError as refused:
        return await _shown(
            desk, service, status=refused.status, problem=refused.message, comment=comment
        )
    return guarded(RedirectResponse(HOME, status_code=303))


async def _shown(
    desk: ConsoleContext,
    service: VersionService,
    *,
    after: str | None = None,
    status: int = 200,
    problem: str = "",
    comment: str = "",
) -> Response:
    now_us = desk.now_us
    try:
        rows = await service.page(PageRequest(ROWS, after))
        activation = await attempt(service.versions.active)
        before = await attempt(service.versions.before_active)
        active = await service.version(activation.version) if activation else None
    except SQLAlchemyError:
        return page("away.html", 503, title="Routing policy")
    running = await _running(service)
    view = PoliciesView(
        active=version_row(active, now_us=now_us) if active else None,
        gateways=None
        if running is None or active is None
        else gateway_rows(running, active.row.version, now_us=now_us),
        versions=version_rows(rows.data, now_us=now_us),
        after=rows.after,
        before_active=before,
        problem=problem,
        comment=comment,
    )
    return page("policies.html", status, view=view)


async def _running(service: VersionService) -> Sequence[RunningVersion] | None:
    try:
        return await service.keeper.gateways()
    except RedisError:
        return None
