"""Organizations and projects as an administrator keeps them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from sqlmodel import Session, select

from gateway.admin.use_cases import AdminStore, admin_store, changing, must_get
from gateway.api.dependencies import parts_of
from gateway.tenants.ids import NewId
from gateway.tenants.store import Conflict
from gateway.tenants.tables import Organization, Project


@dataclass(frozen=True, slots=True)
class OrganizationService:
    """Raises ApiError: 404 for an unknown organization or project, 409 for a slug that is taken."""

    store: AdminStore
    new_id: NewId

    async def create(self, name: str, slug: str, **columns: Any) -> Organization:
        """`columns`: its tier, how it settles, and what it may owe."""
        row = Organization(
            id=self.new_id("org"), name=name, slug=slug, created_us=self.store.now_us, **columns
        )

        def work(session: Session) -> Organization:
            if session.exec(select(Organization).where(Organization.slug == slug)).first():
                raise Conflict(f"the slug {slug!r} is taken")
            session.add(row)
            return row

        return await self.store.change("organization.create", row.id, work)

    async def change(self, organization_id: str, columns: Mapping[str, Any]) -> Organization:
        """Its status and tier, how it settles, what it may owe."""
        work = changing(Organization, organization_id, columns)
        return await self.store.change("organization.change", organization_id, work, **columns)

    async def create_project(self, organization_id: str, name: str) -> Project:
        row = Project(
            id=self.new_id("proj"),
            org_id=organization_id,
            name=name,
            created_us=self.store.now_us,
        )

        def work(session: Session) -> Project:
            must_get(session, Organization, organization_id)
            session.add(row)
            return row

        return await self.store.change("project.create", row.id, work)

    async def change_project(self, project_id: str, columns: Mapping[str, Any]) -> Project:
        """Its status."""
        work = changing(Project, project_id, columns)
        return await self.store.change("project.change", project_id, work, **columns)


async def organizations_of(request: Request) -> OrganizationService:
    parts = parts_of(request)
    return OrganizationService(admin_store(parts), parts.new_id)


Organizations = Annotated[OrganizationService, Depends(organizations_of)]
