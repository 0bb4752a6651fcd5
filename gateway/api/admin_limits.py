"""Limits of organizations, projects and keys, of one model or end user within them, and what
becomes of an organization's calls while the limiter is away."""

from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from billing.money import nanousd, usd
from gateway.api.admin_tenants import attempt, tenants_of
from gateway.api.fields import Burst, Label, Limit
from gateway.api.needs import parts_of
from gateway.tables import Limits, NarrowLimits, Outage

router = APIRouter()

LimitScope = Annotated[
    str,
    Path(
        pattern=r"^(org|project|key):[^/]+(/(model|user):[^\x00-\x1f\x7f]{1,512})?$",
        description="`org:ID`, `project:ID` or `key:ID`; one model of it, as in"
        " `org:ID/model:NAME`; one end user, as in `key:ID/user:NAME`, or every one without limits"
        " of its own: `key:ID/user:*`",
    ),
]


class LimitsBody(BaseModel):
    """All limits of a scope: null is none. PUT replaces them, so that one left out is none either;
    with PATCH it stays as it is."""

    model_config = ConfigDict(extra="forbid")
    requests_per_minute: Limit | None = None
    request_burst: Burst | None = None
    tokens_per_minute: Limit | None = None
    token_burst: Burst | None = None
    input_tokens_per_minute: Limit | None = None
    input_token_burst: Burst | None = None
    output_tokens_per_minute: Limit | None = None
    output_token_burst: Burst | None = None
    concurrency: Limit | None = None


class OutageBody(BaseModel):
    """`local`: limits of each gateway's own, owing at most `spend_cap_usd` to each; `deny`: 503;
    null: local for calls that no budget binds, deny for others."""

    model_config = ConfigDict(extra="forbid")
    mode: Literal["local", "deny"] | None
    spend_cap_usd: str | None = Field(None, description="decimal USD, to be said for `local`")

    @field_validator("spend_cap_usd")
    @classmethod
    def is_amount(cls, text: str | None) -> str | None:
        if text is not None and nanousd(text) < 0:
            raise ValueError("a cap is not negative")
        return text

    @model_validator(mode="after")
    def is_whole(self) -> Self:
        if (self.mode == "local") != (self.spend_cap_usd is not None):
            raise ValueError("a cap belongs to 'local', and 'local' needs one")
        return self


@router.put("/limits/{scope:path}")
async def set_limits(request: Request, scope: LimitScope, body: LimitsBody) -> dict[str, Any]:
    return await _change(request, scope, body.model_dump())


@router.patch("/limits/{scope:path}")
async def change_limits(request: Request, scope: LimitScope, body: LimitsBody) -> dict[str, Any]:
    return await _change(request, scope, body.model_dump(exclude_unset=True))


async def _change(request: Request, scope: str, changes: dict[str, Any]) -> dict[str, Any]:
    tenants = tenants_of(request)
    owner, _, narrow = scope.partition("/")
    row: Limits | NarrowLimits
    if narrow:
        kind, _, name = narrow.partition(":")
        row = await attempt(lambda: tenants.set_narrow_limits(owner, kind, name, changes))
    else:
        row = await attempt(lambda: tenants.set_limits(scope, changes))
    parts_of(request).keys.forget()
    return limits(row)


@router.get("/limits")
async def list_limits(request: Request) -> dict[str, Any]:
    store = parts_of(request).tenants
    wide = await attempt(lambda: store.every(Limits))
    narrow = await attempt(lambda: store.every(NarrowLimits))
    return {"object": "list", "data": [*map(limits, wide), *map(limits, narrow)]}


@router.put("/outages/{organization_id}")
async def set_outage(request: Request, organization_id: Label, body: OutageBody) -> dict[str, Any]:
    tenants = tenants_of(request)
    cap = None if body.spend_cap_usd is None else nanousd(body.spend_cap_usd)
    row = await attempt(lambda: tenants.set_outage(organization_id, body.mode, cap))
    parts_of(request).keys.forget()
    return outage(row) | {"mode": body.mode}


@router.get("/outages")
async def list_outages(request: Request) -> dict[str, Any]:
    rows = await attempt(lambda: parts_of(request).tenants.every(Outage))
    return {"object": "list", "data": [outage(row) for row in rows]}


def limits(row: Limits | NarrowLimits) -> dict[str, Any]:
    left_out = {"budget_nanousd", "budget_window", "owner", "kind", "name"}
    return {"object": "limits", "scope": row.scope} | row.model_dump(exclude=left_out)


def outage(row: Outage) -> dict[str, Any]:
    cap = row.cap_nanousd
    return {
        "object": "outage",
        "organization": row.org_id,
        "mode": row.mode,
        "spend_cap_usd": None if cap is None else usd(cap),
    }
