"""Versions written to a database as an administrator writes them, without the API."""

from sqlmodel import Session

from gateway.policies.tables import POLICIES
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import Audit
from gateway.versions.store import (
    Author,
    VersionStore,
    activate_version,
    add_version,
    last_activation,
)
from gateway.versions.tables import Activation, Version

ADA = Author("ada", 1_700_000_000_000_000, "because")
HEAD = "apiVersion: gateway/v1\nkind: RoutingPolicy\n"


def document(rule: str = "a") -> str:
    return HEAD + (
        f"rules: [{{id: {rule}, when: ['req.stream'], route: {{}}}}]\ndefault: {{route: {{}}}}\n"
    )


def store_of(tenants: TenantStore) -> VersionStore:
    return VersionStore(tenants._store, POLICIES)


def added(tenants: TenantStore, text: str) -> int:
    def work(session: Session) -> Version:
        return add_version(session, POLICIES, text, ADA)

    return tenants.change(_audit("policy.create"), work).version


def activated(
    tenants: TenantStore, version: int, *, expects: int | None = -1, is_rollback: bool = False
) -> Activation:
    """`expects` -1: whatever is active."""

    def work(session: Session) -> Activation:
        active = last_activation(session, POLICIES)
        now = None if active is None else active.version
        wanted = now if expects == -1 else expects
        return activate_version(
            session, POLICIES, version, ADA, expects=wanted, is_rollback=is_rollback
        )

    return tenants.change(_audit("policy.activate"), work)


def _audit(action: str) -> Audit:
    return Audit(at_us=ADA.at_us, actor=ADA.name, action=action, object="")
