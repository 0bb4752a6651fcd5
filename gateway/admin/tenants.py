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
from gateway.store import Conflict, Scoped, TenantStore
from gateway.tables import (
    ApiKey,
    Audit,
    Entitlement,
    KeySecret,
    Limits,
    ModelRow,
    NarrowLimits,
    Organization,
    Outage,
    Project,
)
from routing.types import Clock

SCOPE_KINDS: dict[str, type[Organization] | type[Project] | type[ApiKey]] = {
    "org": Organization,
    "project": Project,
    "key": ApiKey,
}


class NotThere(LookupError):
    """The object that was named does not exist."""


class UnknownModel(ValueError):
    """An entitlement names a model that there is not, and never was."""


@dataclass(frozen=True, slots=True)
class Tenants:
    store: TenantStore
    new_id: NewId
    entropy: Callable[[int], bytes]
    clock: Clock

    def create_organization(self, name: str, slug: str, **terms: Any) -> Organization:
        """`terms`: how it settles, and what it may owe."""
        row = Organization(
            id=self.new_id("org"), name=name, slug=slug, created_us=self._now_us(), **terms
        )

        def work(session: Session) -> Organization:
            if session.exec(select(Organization).where(Organization.slug == slug)).first():
                raise Conflict(f"the slug {slug!r} is taken")
            session.add(row)
            return row

        return self.store.change(self._audit("organization.create", row.id), work)

    def change_organization(self, organization_id: str, changes: dict[str, Any]) -> Organization:
        """Its status, how it settles, what it may owe. Raises NotThere."""

        def work(session: Session) -> Organization:
            row: Organization = _must_get(session, Organization, organization_id)
            row.sqlmodel_update(changes)
            session.add(row)
            return row

        audit = self._audit("organization.change", organization_id, **changes)
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
                prefix=display_prefix(secret),
                created_us=self._now_us(),
                expires_us=expires_us,
            )
            session.add(row)
            session.flush()
            session.add(self._secret_of(row, secret))
            return row

        return self.store.change(self._audit("key.create", project_id, name=name), work), secret

    def rotate_key(self, key_id: str, overlap_s: float) -> tuple[ApiKey, str]:
        """A new secret of the same key; those it had end after `overlap_s`, if not before.

        Limits, budget and what was spent stay, for they belong to the key. Raises NotThere, also
        for a key that is revoked.
        """
        secret = new_secret(self.entropy)
        ends_us = self._now_us() + round(overlap_s * 1e6)

        def work(session: Session) -> ApiKey:
            row: ApiKey = _must_get(session, ApiKey, key_id)
            if row.revoked_us is not None:
                raise NotThere(key_id)
            for old in session.exec(select(KeySecret).where(KeySecret.key_id == key_id)):
                if old.expires_us is None or old.expires_us > ends_us:
                    old.expires_us = ends_us
            row.prefix = display_prefix(secret)
            session.add(self._secret_of(row, secret))
            return row

        return self.store.change(
            self._audit("key.rotate", key_id, overlap_s=overlap_s), work
        ), secret

    def _secret_of(self, key: ApiKey, secret: str) -> KeySecret:
        return KeySecret(hash=key_digest(secret), key_id=key.id, created_us=self._now_us())

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
        return self.store.change(
            self._audit("limits.set", scope, **changes), _updating(Limits, scope, changes)
        )

    def set_narrow_limits(
        self, owner: str, kind: str, name: str, changes: dict[str, Any]
    ) -> NarrowLimits:
        """Set some limits of one model, one end user or every end user (`*`) within an owner's
        scope. Where none is left, nothing binds them any more. Raises NotThere."""

        def work(session: Session) -> NarrowLimits:
            must_get_owner(session, owner)
            if kind == "model":
                _must_get(session, ModelRow, name)
            kept = session.get(NarrowLimits, (owner, kind, name))
            row = kept or NarrowLimits(owner=owner, kind=kind, name=name)
            row.sqlmodel_update(changes)
            left = row.model_dump(exclude={"owner", "kind", "name"}).values()
            if any(limit is not None for limit in left):
                session.add(row)
            elif kept:
                session.delete(kept)
            return row

        scope = f"{owner}/{kind}:{name}"
        return self.store.change(self._audit("limits.set", scope, **changes), work)

    def set_outage(self, organization_id: str, mode: str | None, cap_nanousd: int | None) -> Outage:
        """Say what becomes of an organization's calls while Redis is away; a None leaves it to
        whether there are budgets. Raises NotThere."""

        def work(session: Session) -> Outage:
            _must_get(session, Organization, organization_id)
            kept = session.get(Outage, organization_id)
            row = kept or Outage(org_id=organization_id, mode="deny")
            if mode is None:
                if kept:
                    session.delete(kept)
                return row
            row.mode, row.cap_nanousd = mode, cap_nanousd
            session.add(row)
            return row

        audit = self._audit("outage.set", organization_id, mode=mode, cap_nanousd=cap_nanousd)
        return self.store.change(audit, work)

    def set_entitlement(self, scope: str, changes: dict[str, Any]) -> Entitlement:
        """Say what one scope may use; a None takes a restriction away. Raises NotThere, or
        UnknownModel."""
        update = _updating(Entitlement, scope, changes)

        def work(session: Session) -> Entitlement:
            for model in changes.get("models") or ():
                if session.get(ModelRow, model) is None:
                    raise UnknownModel(f"There is no model '{model}'.")
            return update(session)

        return self.store.change(self._audit("entitlement.set", scope, **changes), work)

    def _audit(self, action: str, object_id: str, **detail: Any) -> Audit:
        return Audit(
            at_us=self._now_us(), actor="admin", action=action, object=object_id, detail=detail
        )

    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


def _updating(
    kind: type[Scoped], scope: str, changes: dict[str, Any]
) -> Callable[[Session], Scoped]:
    """Change some fields of the one row that a scope has, or will have."""

    def work(session: Session) -> Scoped:
        must_get_owner(session, scope)
        row = session.get(kind, scope) or kind(scope=scope)
        row.sqlmodel_update(changes)
        session.add(row)
        return row

    return work


def must_get_owner(session: Session, scope: str) -> None:
    kind, _, object_id = scope.partition(":")
    if kind not in SCOPE_KINDS:
        raise NotThere(scope)
    _must_get(session, SCOPE_KINDS[kind], object_id)


def _must_get(session: Session, kind: Any, key: str) -> Any:
    row = session.get(kind, key)
    if row is None:
        raise NotThere(key)
    return row
