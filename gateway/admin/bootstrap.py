"""What a data folder starts with: the tenant whose key `sluice up` prints, models and pools.

Blocking and idempotent: run at every start of a gateway. Models and pools that stand in the
settings file follow it, until an administrator changes them; whatever an administrator added,
changed or disabled is left alone.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from sqlmodel import Session, SQLModel, col, delete, select

from gateway.settings import BootstrapSettings, Settings
from gateway.store import TenantStore
from gateway.tables import (
    ApiKey,
    Audit,
    KeySecret,
    Limits,
    ModelRow,
    Organization,
    PoolRow,
    Project,
)

FROM_FILE = "file"
ORGANIZATION_ID = "org_default"
PROJECT_ID = "proj_default"
KEY_ID = "key_default"
OF_TENANT = {"organization", "project", "insufficient_quota_status"}
"""What [bootstrap] says of the tenant; the rest are limits of its key."""
Row = TypeVar("Row", bound=SQLModel)


def bootstrap(store: TenantStore, settings: Settings, now_us: int) -> None:
    """Bring SQL in line with the settings; nothing is written where nothing differs."""
    created_us = {row.name: row.created_us for row in store.every(ModelRow)}
    models = [
        ModelRow(
            **entry.model_dump(),
            created_us=created_us.get(entry.name, now_us),
            enabled=True,
            source=FROM_FILE,
        )
        for entry in settings.models
    ]
    pools = [
        PoolRow(**entry.model_dump(), enabled=True, source=FROM_FILE) for entry in settings.pools
    ]
    _follow_file(store, ModelRow, models, now_us)
    _follow_file(store, PoolRow, pools, now_us)
    if settings.api_key:
        _first_tenant(store, settings.bootstrap, settings.api_key, now_us)


def _follow_file(store: TenantStore, kind: type[Row], wanted: Sequence[Row], now_us: int) -> None:
    stored = {_name(row): row for row in store.every(kind)}
    current = {name: row for name, row in stored.items() if _is_from_file(row)}
    kept = stored.keys() - current.keys()
    followed = [row for row in wanted if _name(row) not in kept]
    changed = [row for row in followed if _differs(current.get(_name(row)), row)]
    gone = [row for name, row in current.items() if name not in {_name(r) for r in wanted}]
    gone = [row for row in gone if row.model_dump()["enabled"]]
    if not changed and not gone:
        return

    def work(session: Session) -> Audit:
        for row in changed:
            session.merge(row)
        for row in gone:
            stored = session.get(kind, _name(row))
            if stored is not None:
                stored.sqlmodel_update({"enabled": False})
        return audit

    names = [_name(row) for row in (*changed, *gone)]
    audit = Audit(
        at_us=now_us,
        actor="settings",
        action=f"{kind.__tablename__}.follow_file",
        object=",".join(names),
    )
    store.change(audit, work)


def _name(row: SQLModel) -> str:
    return str(row.model_dump()["name"])


def _is_from_file(row: SQLModel) -> bool:
    return bool(row.model_dump()["source"] == FROM_FILE)


def _differs(current: SQLModel | None, wanted: SQLModel) -> bool:
    return current is None or current.model_dump() != wanted.model_dump()


def _first_tenant(store: TenantStore, wanted: BootstrapSettings, api_key: str, now_us: int) -> None:
    digest = hashlib.sha256(api_key.encode()).digest()
    if store.every(KeySecret, {"hash": digest}):
        return

    def work(session: Session) -> ApiKey:
        if session.get(Organization, ORGANIZATION_ID) is None:
            session.add(
                Organization(
                    id=ORGANIZATION_ID,
                    name=wanted.organization,
                    slug="default",
                    created_us=now_us,
                    insufficient_quota_status=wanted.insufficient_quota_status.value,
                )
            )
            session.flush()
            session.add(
                Project(
                    id=PROJECT_ID, org_id=ORGANIZATION_ID, name=wanted.project, created_us=now_us
                )
            )
            session.flush()
        older = session.exec(select(ApiKey).where(col(ApiKey.id) == KEY_ID)).first()
        key = older or ApiKey(
            id=KEY_ID,
            project_id=PROJECT_ID,
            org_id=ORGANIZATION_ID,
            name="bootstrap",
            prefix=display_prefix(api_key),
            created_us=now_us,
            is_bootstrap=True,
        )
        key.prefix = display_prefix(api_key)
        session.add(key)
        session.flush()
        session.exec(delete(KeySecret).where(col(KeySecret.key_id) == KEY_ID))
        session.add(KeySecret(hash=digest, key_id=KEY_ID, created_us=now_us))
        limits = wanted.model_dump(exclude=OF_TENANT)
        session.merge(Limits(scope=f"key:{KEY_ID}", **limits))
        return key

    audit = Audit(at_us=now_us, actor="settings", action="tenant.bootstrap", object=KEY_ID)
    store.change(audit, work)


def display_prefix(api_key: str) -> str:
    """What may be shown of a key: its first letters and its last four."""
    return f"{api_key[:13]}...{api_key[-4:]}"
