"""Organizations, projects, keys and their limits: use cases of an administrator.

Blocking; each is one transaction with its audit row. A key's secret is answered once, at its
making, and kept only as a SHA-256.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, select

from gateway.admin.bootstrap import display_prefix
from gateway.identity import NewId, key_digest, new_secret
from gateway.store import Conflict, TenantStore
from gateway.tables import ApiKey, Audit, Limits, Organization, Project
from routing.types import Clock

SCOPE_KINDS: dict[str, type[Organization] | type[Project] | type[ApiKey]] = {
    "org": Organization,
    "project": Project,
    "key": ApiKey,
}


class NotThere(LookupError):
    """The object that was named does not exist."""


@dataclass(frozen=True, slots=True)
class Tenants:
    store: TenantStore
    new_id: NewId
    entropy: Callable[[int], bytes]
    clock: Clock

    def create_organization(self, name: str, slug: str) -> Organization:
        row = Organization(id=self.new_id("org"), name=name, slug=slug, created_us=self._now_us())

        def work(session: Session) -> Organization:
            if session.exec(select(Organization).where(Organization.slug == slug)).first():
                raise Conflict(f"the slug {slug!r} is taken")
            session.add(row)
            return row

        return self.store.change(self._audit("organization.create", row.id), work)

    def set_status(self, organization_id: str, status: str) -> Organization:
        def work(session: Session) -> Organization:
            row: Organization = _must_get(session, Organization, organization_id)
            row.status = status
            session.add(row)
            return row

        audit = self._audit("organization.status", organization_id, status=status)
        return self.store.change(audit, work)

    def create_project(self, organization_id: str, name: str) -> Project:
        row = Project(
            id=self.new_id("proj"), org_id=organization_id, name=name, created_us=self._now_us()
        )

        def work(session: Session) -> Project:
            _must_get(session, Organization, organization_id)
            session.add(row)
            return row

        return self.store.change(self._audit("project.create", row.id), work)

    def create_key(self, project_id: str, name: str, expires_us: int | None) -> tuple[ApiKey, str]:
        """The row and the secret, which nobody can read again."""
        secret = new_secret(self.entropy)

        def work(session: Session) -> ApiKey:
            project = _must_get(session, Project, project_id)
            row = ApiKey(
                id=self.new_id("key"),
                project_id=project_id,
                org_id=project.org_id,
                name=name,
                hash=key_digest(secret),
                prefix=display_prefix(secret),
                created_us=self._now_us(),
                expires_us=expires_us,
            )
            session.add(row)
            return row

        return self.store.change(self._audit("key.create", project_id, name=name), work), secret

    def revoke_key(self, key_id: str) -> ApiKey:
        """Effective in every gateway within one revision poll; revoking twice is no error."""

        def work(session: Session) -> ApiKey:
            row: ApiKey = _must_get(session, ApiKey, key_id)
            row.revoked_us = row.revoked_us or self._now_us()
            session.add(row)
            return row

        return self.store.change(self._audit("key.revoke", key_id), work)

    def set_limits(self, scope: str, changes: dict[str, Any]) -> Limits:
        """Set some limits of one scope; a None takes a limit away. Raises NotThere."""
        kind, _, object_id = scope.partition(":")
        if kind not in SCOPE_KINDS:
            raise NotThere(scope)

        def work(session: Session) -> Limits:
            _must_get(session, SCOPE_KINDS[kind], object_id)
            row = session.get(Limits, scope) or Limits(scope=scope)
            row.sqlmodel_update(changes)
            session.add(row)
            return row

        return self.store.change(self._audit("limits.set", scope, **changes), work)

    def _audit(self, action: str, object_id: str, **detail: Any) -> Audit:
        return Audit(
            at_us=self._now_us(), actor="admin", action=action, object=object_id, detail=detail
        )

    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


def _must_get(session: Session, kind: Any, key: str) -> Any:
    row = session.get(kind, key)
    if row is None:
        raise NotThere(key)
    return row
