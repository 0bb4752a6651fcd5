"""Organizations, projects, keys, and what they may use."""

import asyncio
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, field_validator

from billing.money import nanousd, usd
from gateway.admin.tenants import NotThere, Tenants, UnknownModel
from gateway.api.fields import YEAR_S, InstantS, Label, Scope
from gateway.api.needs import parts_of
from gateway.api.shapes import at
from gateway.errors import ApiError, bad_request
from gateway.store import Conflict
from gateway.tables import ApiKey, Entitlement, Organization, Project
from routing.types import CapacityClass, Tier

router = APIRouter()
T = TypeVar("T")


class Settlement(BaseModel):
    """How an organization pays. What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")
    settlement_mode: Literal["postpaid", "prepaid"] = Field(
        "postpaid", description="prepaid: it spends what its credits cover, and its credit limit"
    )
    credit_limit_usd: str | None = Field(
        None,
        description="decimal USD: the most it may owe beyond its credits; null is no limit where it"
        " pays afterwards, and zero where before",
    )
    insufficient_quota_status: Literal[429, 402] = Field(
        429, description="of a call that credits, a credit limit or a budget do not cover"
    )

    @field_validator("credit_limit_usd")
    @classmethod
    def is_amount(cls, text: str | None) -> str | None:
        if text is not None and nanousd(text) < 0:
            raise ValueError("a credit limit is not negative")
        return text

    def terms(self) -> dict[str, Any]:
        """What was said of it, as columns."""
        said = self.model_dump(include=set(Settlement.model_fields), exclude_unset=True)
        if "credit_limit_usd" in said:
            limit = said.pop("credit_limit_usd")
            said["credit_limit_nanousd"] = None if limit is None else nanousd(limit)
        return said


class NewOrganization(Settlement):
    name: Label
    slug: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")


class OrganizationChange(Settlement):
    status: Literal["active", "frozen"] = "active"


class NewProject(BaseModel):
    model_config = ConfigDict(extra="forbid")
    organization: Label
    name: Label


class NewKey(BaseModel):
    model_config = ConfigDict(extra="forbid")
    project: Label
    name: Label
    expires_at: InstantS | None = Field(None, gt=0, description="epoch seconds")


class Rotation(BaseModel):
    model_config = ConfigDict(extra="forbid")
    overlap_s: float = Field(
        0.0, strict=True, ge=0, le=YEAR_S, description="the old secret works this long"
    )


class EntitlementBody(BaseModel):
    """All that a scope may use; null is everything. PUT replaces it, so that what is left out is
    everything too; with PATCH it stays as it is."""

    model_config = ConfigDict(extra="forbid")
    models: list[Label] | None = Field(None, max_length=1000)
    tiers: list[Tier] | None = None
    capacity_classes: list[CapacityClass] | None = None


async def attempt(work: Callable[[], T]) -> T:
    """Run a blocking use case off the event loop; its named failures become 404 and 409."""
    try:
        return await asyncio.to_thread(work)
    except NotThere as missing:
        raise ApiError(404, f"There is no '{missing.args[0]}'.", code="not_found") from missing
    except Conflict as conflict:
        raise ApiError(409, str(conflict), code="conflict") from conflict


def tenants_of(request: Request) -> Tenants:
    parts = parts_of(request)
    return Tenants(parts.tenants, parts.new_id, parts.outside.entropy, parts.outside.clock)


@router.post("/organizations", status_code=201)
async def create_organization(request: Request, body: NewOrganization) -> dict[str, Any]:
    tenants = tenants_of(request)
    return organization(
        await attempt(lambda: tenants.create_organization(body.name, body.slug, **body.terms()))
    )


@router.get("/organizations")
async def list_organizations(request: Request) -> dict[str, Any]:
    rows = await attempt(lambda: parts_of(request).tenants.every(Organization))
    return {"object": "list", "data": [organization(row) for row in rows]}


@router.patch("/organizations/{organization_id}")
async def change_organization(
    request: Request, organization_id: Label, body: OrganizationChange
) -> dict[str, Any]:
    """What is left out stays as it is; a credit limit of null takes it away."""
    tenants = tenants_of(request)
    changes = body.terms() | body.model_dump(include={"status"}, exclude_unset=True)
    row = await attempt(lambda: tenants.change_organization(organization_id, changes))
    parts_of(request).keys.forget()
    return organization(row)


@router.post("/projects", status_code=201)
async def create_project(request: Request, body: NewProject) -> dict[str, Any]:
    tenants = tenants_of(request)
    return project(await attempt(lambda: tenants.create_project(body.organization, body.name)))


@router.get("/projects")
async def list_projects(request: Request, organization: Label | None = None) -> dict[str, Any]:
    equals = {"org_id": organization} if organization else {}
    rows = await attempt(lambda: parts_of(request).tenants.every(Project, equals))
    return {"object": "list", "data": [project(row) for row in rows]}


@router.post("/keys", status_code=201)
async def create_key(request: Request, body: NewKey) -> dict[str, Any]:
    """The answer carries `secret`, this once."""
    now_s = parts_of(request).outside.clock()
    if body.expires_at is not None and body.expires_at <= now_s:
        raise bad_request("expires_at: Must lie in the future.", "expires_at")
    tenants = tenants_of(request)
    expires_us = body.expires_at * 1_000_000 if body.expires_at else None
    row, secret = await attempt(lambda: tenants.create_key(body.project, body.name, expires_us))
    parts_of(request).keys.forget()
    return api_key(row) | {"secret": secret}


@router.get("/keys")
async def list_keys(request: Request, project: Label | None = None) -> dict[str, Any]:
    equals = {"project_id": project} if project else {}
    rows = await attempt(lambda: parts_of(request).tenants.every(ApiKey, equals))
    return {"object": "list", "data": [api_key(row) for row in rows]}


@router.delete("/keys/{key_id}")
async def revoke_key(request: Request, key_id: Label) -> dict[str, Any]:
    tenants = tenants_of(request)
    row = await attempt(lambda: tenants.revoke_key(key_id))
    parts_of(request).keys.forget()
    return api_key(row)


@router.post("/keys/{key_id}/rotate")
async def rotate_key(
    request: Request, key_id: Label, body: Rotation | None = None
) -> dict[str, Any]:
    """The answer carries the new `secret`, this once; limits and spending stay the key's."""
    overlap_s = body.overlap_s if body else 0.0
    tenants = tenants_of(request)
    row, secret = await attempt(lambda: tenants.rotate_key(key_id, overlap_s))
    parts_of(request).keys.forget()
    return api_key(row) | {"secret": secret}


@router.put("/entitlements/{scope}")
async def set_entitlement(request: Request, scope: Scope, body: EntitlementBody) -> dict[str, Any]:
    return await _entitle(request, scope, body.model_dump(mode="json"))


@router.patch("/entitlements/{scope}")
async def change_entitlement(
    request: Request, scope: Scope, body: EntitlementBody
) -> dict[str, Any]:
    return await _entitle(request, scope, body.model_dump(mode="json", exclude_unset=True))


async def _entitle(request: Request, scope: str, changes: dict[str, Any]) -> dict[str, Any]:
    tenants = tenants_of(request)
    try:
        row = await attempt(lambda: tenants.set_entitlement(scope, changes))
    except UnknownModel as unknown:
        raise bad_request(str(unknown), "models") from unknown
    parts_of(request).keys.forget()
    return entitlement(row)


@router.get("/entitlements")
async def list_entitlements(request: Request) -> dict[str, Any]:
    rows = await attempt(lambda: parts_of(request).tenants.every(Entitlement))
    return {"object": "list", "data": [entitlement(row) for row in rows]}


def organization(row: Organization) -> dict[str, Any]:
    return {
        "id": row.id,
        "object": "organization",
        "name": row.name,
        "slug": row.slug,
        "status": row.status,
        "settlement_mode": row.settlement_mode,
        "credit_limit_usd": None
        if row.credit_limit_nanousd is None
        else usd(row.credit_limit_nanousd),
        "insufficient_quota_status": row.insufficient_quota_status,
        "created_at": at(row.created_us),
    }


def project(row: Project) -> dict[str, Any]:
    return {
        "id": row.id,
        "object": "project",
        "organization": row.org_id,
        "name": row.name,
        "status": row.status,
        "created_at": at(row.created_us),
    }


def api_key(row: ApiKey) -> dict[str, Any]:
    return {
        "id": row.id,
        "object": "api_key",
        "project": row.project_id,
        "organization": row.org_id,
        "name": row.name,
        "redacted": row.prefix,
        "created_at": at(row.created_us),
        "expires_at": at(row.expires_us),
        "revoked_at": at(row.revoked_us),
    }


def entitlement(row: Entitlement) -> dict[str, Any]:
    return {"object": "entitlement"} | row.model_dump()
