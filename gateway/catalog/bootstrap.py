"""What a data folder starts with: the tenant whose key `sluice up` prints, and the catalogue.

Blocking and idempotent: run at every start of a gateway. Models, variants and pools that stand in
the settings file follow it, until an administrator changes them; whatever an administrator added,
changed or disabled is left alone. A pool that is new or changed has to have a price, as one that an
administrator adds.
"""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, SQLModel, col, delete, select

from gateway.catalog.plan import unbought
from gateway.catalog.tables import HardwareRow, ModelRow, PoolRow, VariantRow
from gateway.config_file import SettingsError
from gateway.limits.limit import OwnerLimitFields
from gateway.limits.tables import Limits
from gateway.providers.tables import bought_models
from gateway.settings import BootstrapSettings, Settings
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import ApiKey, Audit, KeySecret, Organization, Project

FROM_FILE = "file"
LOOKS_MAX = 16
"""How often a start looks again after another gateway wrote the same row first."""
ORGANIZATION_ID = "org_default"
PROJECT_ID = "proj_default"
KEY_ID = "key_default"
Row = TypeVar("Row", bound=SQLModel)


def bootstrap(store: TenantStore, settings: Settings, now_us: int) -> None:
    """Bring SQL in line with the settings; nothing is written where nothing differs.

    Of several gateways that start at once on a new database one is first, and the others look
    again. Raises IntegrityError if none of so many looks was the last, and SettingsError for a pool
    of an account that has no approved price of its model.
    """
    for looks_left in reversed(range(LOOKS_MAX)):
        try:
            _follow_settings(store, settings, now_us)
            return
        except IntegrityError:
            if not looks_left:
                raise


def _follow_settings(store: TenantStore, settings: Settings, now_us: int) -> None:
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
    variants = [
        VariantRow(**entry.model_dump(), enabled=True, source=FROM_FILE)
        for entry in settings.variants
    ]
    pools = [
        PoolRow(**entry.model_dump(), enabled=True, source=FROM_FILE) for entry in settings.pools
    ]
    hardware = [
        HardwareRow(**entry.model_dump(), enabled=True, source=FROM_FILE)
        for entry in settings.hardware
    ]
    _follow_file(store, HardwareRow, hardware, now_us)
    _follow_file(store, ModelRow, models, now_us)
    _follow_file(store, VariantRow, variants, now_us)
    _follow_file(store, PoolRow, pools, now_us)
    if settings.api_key:
        _first_tenant(store, settings.bootstrap, settings.api_key, now_us)


def _follow_file(store: TenantStore, kind: type[Row], rows: Sequence[Row], now_us: int) -> None:
    def key(row: Row) -> tuple[str, ...]:
        return tuple(getattr(row, name) for name in store.key_of(kind))

    stored = {key(row): row for row in store.every(kind)}
    current = {name: row for name, row in stored.items() if _is_from_file(row)}
    absent = stored.keys() - current.keys()
    followed = [row for row in rows if key(row) not in absent]
    changed = [row for row in followed if _differs(current.get(key(row)), row)]
    unlisted = [row for name, row in current.items() if name not in {key(r) for r in rows}]
    unlisted = [row for row in unlisted if row.model_dump()["enabled"]]
    if not changed and not unlisted:
        return

    def work(session: Session) -> Audit:
        for row in changed:
            if isinstance(row, PoolRow):
                _check_bought(session, row, now_us)
            session.merge(row)
        for row in unlisted:
            stored = session.get(kind, key(row))
            if stored is not None:
                stored.sqlmodel_update({"enabled": False})
        return audit

    names = ["/".join(key(row)) for row in (*changed, *unlisted)]
    audit = Audit(
        at_us=now_us,
        actor="settings",
        action=f"{kind.__tablename__}.follow_file",
        object=",".join(names),
    )
    store.change(audit, work)


def _check_bought(session: Session, pool: PoolRow, now_us: int) -> None:
    if words := unbought(pool, bought_models(session, now_us)):
        raise SettingsError(f"[[pools]] {pool.name}: upstream_model: {words}")


def _is_from_file(row: SQLModel) -> bool:
    return bool(row.model_dump()["source"] == FROM_FILE)


def _differs(current: SQLModel | None, row: SQLModel) -> bool:
    return current is None or current.model_dump() != row.model_dump()


def _first_tenant(store: TenantStore, tenant: BootstrapSettings, api_key: str, now_us: int) -> None:
    digest = hashlib.sha256(api_key.encode()).digest()
    if store.every(KeySecret, {"hash": digest}):
        return

    def work(session: Session) -> ApiKey:
        if session.get(Organization, ORGANIZATION_ID) is None:
            session.add(
                Organization(
                    id=ORGANIZATION_ID,
                    name=tenant.organization,
                    slug="default",
                    created_us=now_us,
                    insufficient_quota_status=tenant.insufficient_quota_status.value,
                )
            )
            session.flush()
            session.add(
                Project(
                    id=PROJECT_ID, org_id=ORGANIZATION_ID, name=tenant.project, created_us=now_us
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
        limits = tenant.model_dump(include=set(OwnerLimitFields.model_fields))
        session.merge(Limits(scope=f"key:{KEY_ID}", **limits))
        return key

    audit = Audit(at_us=now_us, actor="settings", action="tenant.bootstrap", object=KEY_ID)
    store.change(audit, work)


def display_prefix(api_key: str) -> str:
    """What may be shown of a key: its first letters and its last four."""
    return f"{api_key[:13]}...{api_key[-4:]}"
