"""`/admin/v1/policies`: versions of the routing policy, from a draft into force and back."""

from typing import Any

from fastapi import APIRouter, Query, Response

from gateway.admin.policies.schemas import (
    ActivePolicyAnswer,
    PolicyAnswer,
    PolicyBody,
    PolicyCheck,
    PolicySchema,
    PolicyWithDocument,
)
from gateway.admin.policies.service import Checker, Policies
from gateway.admin.versions.schemas import Version, VersionActivationBody, VersionRollbackBody
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.policies.document import schema
from routing.policy.attributes import ATTRIBUTES

router = APIRouter(prefix="/policies", tags=["policies"])

DRY_RUN = Query(False, description="check the document, and store nothing")


@router.get("", response_model=Page[PolicyAnswer])
async def list_policies(policies: Policies, page: Paged) -> Any:
    """Every version without its document, newest first."""
    return await policies.page(page)


@router.post(
    "",
    status_code=201,
    response_model=PolicyAnswer,
    responses={200: {"model": PolicyCheck, "description": "Checked, with `dry_run`"}},
)
async def create_policy(
    policies: Policies, checker: Checker, body: PolicyBody, dry_run: bool = DRY_RUN
) -> Any:
    """Stores a document as a draft. What is wrong with it is refused with every mistake."""
    if not dry_run:
        return await policies.create(body)
    check = PolicyCheck.model_validate(await checker.require_valid(body.document))
    return Response(check.model_dump_json(), media_type="application/json")


@router.get("/active", response_model=ActivePolicyAnswer)
async def show_active_policy(policies: Policies) -> Any:
    """The version in force, and which one each gateway runs."""
    return await policies.in_force()


@router.get("/schema", response_model=PolicySchema)
async def show_policy_schema() -> Any:
    """JSON Schema of a document, and the attributes that its clauses may read."""
    return schema() | {"attributes": {"data": ATTRIBUTES}}


@router.post("/rollback", response_model=PolicyAnswer)
async def roll_back_policy(policies: Policies, body: VersionRollbackBody) -> Any:
    """Puts the version into force that was before the active one, or `to`."""
    return await policies.rollback(body)


@router.get("/{version}", response_model=PolicyWithDocument)
async def show_policy(policies: Policies, version: Version) -> Any:
    return await policies.version(version)


@router.post("/{version}/validate", response_model=PolicyCheck)
async def validate_policy(policies: Policies, checker: Checker, version: Version) -> Any:
    """Examines a stored document against the catalogue of now, and runs its tests."""
    stored = await policies.version(version)
    return await checker.check(stored.row.document, version)


@router.post("/{version}/activate", response_model=PolicyAnswer)
async def activate_policy(policies: Policies, version: Version, body: VersionActivationBody) -> Any:
    """Puts a version into force that is valid and whose tests pass. Running calls keep theirs."""
    return await policies.activate(version, body)
