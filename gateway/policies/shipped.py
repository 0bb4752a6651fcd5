"""The policy that comes with Sluice: active on a fresh stack, until an administrator activates
another one."""

from contextlib import suppress
from importlib.resources import files
from typing import Final

from sqlmodel import Session

from gateway.policies.document import compiled
from gateway.policies.tables import POLICIES
from gateway.tenants.store import Conflict, TenantStore
from gateway.tenants.tables import Audit
from gateway.versions.store import Author, VersionStore, activate_version, add_version
from gateway.versions.tables import Version
from routing.policy.rules import RoutingPolicy

SHIPPED_VERSION: Final = 1
AUTHOR: Final = "sluice"


def shipped_document() -> str:
    return files("gateway.policies").joinpath("default.yaml").read_text("utf-8")


def shipped_policy() -> RoutingPolicy:
    return compiled(shipped_document(), revision=SHIPPED_VERSION)


def follow_shipped(tenants: TenantStore, policies: VersionStore, now_us: int) -> None:
    """Activate the shipped document where no administrator has activated one. Of several gateways
    that start at once one does. Blocking."""
    active, document = policies.active(), shipped_document()
    if active is not None and active.author != AUTHOR:
        return
    version = None if active is None else active.version
    if version is not None and _is(policies, version, document):
        return
    author = Author(AUTHOR, now_us, "The policy that comes with Sluice")
    audit = Audit(at_us=now_us, actor=AUTHOR, action="policy.activate", object="")

    def work(session: Session) -> Version:
        row = add_version(session, POLICIES, document, author)
        activate_version(session, POLICIES, row.version, author, expects=version)
        audit.object = str(row.version)
        return row

    with suppress(Conflict):
        tenants.change(audit, work)


def _is(policies: VersionStore, version: int, document: str) -> bool:
    stored = policies.version(version)
    return stored is not None and stored.row.document == document
