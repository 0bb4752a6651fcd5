"""`/admin/v1/organizations` and `/admin/v1/projects`."""

from typing import Any

from fastapi import APIRouter

from gateway.admin.organizations.schemas import (
    NewOrganization,
    NewProject,
    OrganizationAnswer,
    OrganizationChange,
    ProjectAnswer,
    ProjectChange,
)
from gateway.admin.organizations.service import Organizations
from gateway.api.pages import Paged
from gateway.api.schemas import Page
from gateway.fields import Label
from gateway.tenants.tables import Organization, Project

router = APIRouter(tags=["organizations"])


@router.post("/organizations", status_code=201, response_model=OrganizationAnswer)
async def create_organization(organizations: Organizations, body: NewOrganization) -> Any:
    return await organizations.create(**body.columns())


@router.get("/organizations", response_model=Page[OrganizationAnswer])
async def list_organizations(organizations: Organizations, page: Paged) -> Any:
    return await organizations.store.page(page, Organization)


@router.patch("/organizations/{organization_id}", response_model=OrganizationAnswer)
async def change_organization(
    organizations: Organizations, organization_id: Label, body: OrganizationChange
) -> Any:
    """What is left out stays as it is; a tier or credit limit of null takes it away."""
    return await organizations.change(organization_id, body.columns())


@router.post("/projects", status_code=201, response_model=ProjectAnswer)
async def create_project(organizations: Organizations, body: NewProject) -> Any:
    return await organizations.create_project(body.organization, body.name)


@router.get("/projects", response_model=Page[ProjectAnswer])
async def list_projects(
    organizations: Organizations, page: Paged, organization: Label | None = None
) -> Any:
    equals = {"org_id": organization} if organization else {}
    return await organizations.store.page(page, Project, equals=equals)


@router.patch("/projects/{project_id}", response_model=ProjectAnswer)
async def change_project(
    organizations: Organizations, project_id: Label, body: ProjectChange
) -> Any:
    """What is left out stays as it is."""
    return await organizations.change_project(project_id, body.model_dump(exclude_unset=True))
