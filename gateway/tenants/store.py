"""Every SQL statement of the gateway's own tables: tenants, keys, limits, the catalogue, audit.

Blocking, to be called off the event loop. Each public method is one transaction. A change to
anything that gateways cache raises the catalog revision in the same transaction, so that a
revoked key is noticed by whoever polls the revision.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, func, inspect, not_, tuple_
from sqlmodel import Session, SQLModel, col, select
from sqlmodel.sql.expression import SelectOfScalar

from billing.budgets import store as budgets
from billing.budgets.budget import Budget
from billing.db.engine import Store
from billing.dunning.suspension import ACTIVE, SUSPENDED
from gateway.catalog.tables import CatalogRevision, HardwareRow, ModelRow, PoolRow, VariantRow
from gateway.limits.budgets import UNBUDGETED, KeyBudgets, key_budgets
from gateway.limits.tables import Limits, NarrowLimits, OutageRow
from gateway.providers.tables import (
    ProviderPriceListRow,
    ProviderRow,
    approved_lists,
    bought_models,
)
from gateway.tenants.tables import ApiKey, Audit, Entitlement, KeySecret, Organization, Project

CONNECTIONS_MAX = 4
"""Of a gateway, to PostgreSQL, beside those to the ledger."""
USER, EVERY_USER = "user", "*"
Scoped = TypeVar("Scoped", Limits, Entitlement)
Row = TypeVar("Row", bound=SQLModel)


class CatalogRows(NamedTuple):
    """What is enabled in one revision of the catalogue."""

    revision: int
    models: Sequence[ModelRow]
    variants: Sequence[VariantRow]
    pools: Sequence[PoolRow]
    hardware: Sequence[HardwareRow] = ()
    providers: Sequence[ProviderRow] = ()
    price_lists: Sequence[ProviderPriceListRow] = ()
    """Of providers, those that are approved."""


@dataclass(frozen=True, slots=True)
class KnownKey:
    """A key as one of its secrets proves it. `expires_us`: when key or secret end, the sooner."""

    key: ApiKey
    organization: Organization
    expires_us: int | None
    is_active: bool
    limits: Mapping[str, Limits]
    entitlements: Mapping[str, Entitlement]
    narrow: Sequence[NarrowLimits] = ()
    """Those of models and of every end user."""
    has_users_apart: bool = False
    """Whether some end user has limits of its own."""
    outage: OutageRow | None = None
    budgets: KeyBudgets = UNBUDGETED


class Conflict(ValueError):
    """The change contradicts what is there (a name taken, a parent missing)."""


class TenantStore:
    def __init__(self, store: Store) -> None:
        self._store = store

    # --- reading ---------------------------------------------------------------------------

    def revision(self) -> int:
        with self._reading() as session:
            row = session.get(CatalogRevision, 1)
            return row.revision if row else 0

    def suspended(self) -> frozenset[str]:
        """Organizations that are suspended until they pay."""
        query = select(Organization.id).where(Organization.status == SUSPENDED)
        with self._reading() as session:
            return frozenset(session.exec(query).all())

    def key_by_hash(self, digest: bytes) -> KnownKey | None:
        """The key of a secret, with what its three scopes say; None if it is revoked."""
        query = (
            select(KeySecret, ApiKey, Project.status, Organization)
            .join(ApiKey, col(ApiKey.id) == col(KeySecret.key_id))
            .join(Project, col(Project.id) == col(ApiKey.project_id))
            .join(Organization, col(Organization.id) == col(ApiKey.org_id))
            .where(KeySecret.hash == digest, col(ApiKey.revoked_us).is_(None))
        )
        with self._reading() as session:
            row = session.exec(query).first()
            if row is None:
                return None
            secret, key, project_status, organization = row
            scopes = [f"key:{key.id}", f"project:{key.project_id}", f"org:{key.org_id}"]
            ends = [us for us in (secret.expires_us, key.expires_us) if us is not None]
            return KnownKey(
                key=key,
                expires_us=min(ends, default=None),
                is_active=project_status == organization.status == ACTIVE,
                organization=organization,
                limits=_of_scopes(session, Limits, scopes),
                entitlements=_of_scopes(session, Entitlement, scopes),
                narrow=session.exec(_narrow(scopes, apart=False)).all(),
                has_users_apart=session.exec(_narrow(scopes, apart=True).limit(1)).first()
                is not None,
                outage=session.get(OutageRow, key.org_id),
                budgets=key_budgets(*budgets.of_owners(session.connection(), scopes)),
            )

    def key_by_id(self, key_id: str) -> KnownKey | None:
        """As with its newest secret; None if there is no such key, or it is revoked."""
        newest = select(KeySecret.hash).where(KeySecret.key_id == key_id)
        with self._reading() as session:
            digest = session.exec(newest.order_by(col(KeySecret.created_us).desc())).first()
        return None if digest is None else self.key_by_hash(digest)

    def limits_of_user(self, owners: Sequence[str], name: str) -> Sequence[NarrowLimits]:
        """The limits that owners have set for one end user alone."""
        query = _narrow(owners, apart=True).where(NarrowLimits.name == name)
        with self._reading() as session:
            return session.exec(query).all()

    def budgets_of_user(self, owners: Sequence[str], name: str) -> Sequence[Budget]:
        """The budgets that owners have made for one end user alone."""
        with self._reading() as session:
            return budgets.of_user(session.connection(), owners, name)

    def secrets_since(self, created_us: int) -> tuple[int, frozenset[bytes]]:
        """Digests of the secrets made since then, and when the last of all was made."""
        query = select(KeySecret.hash).where(KeySecret.created_us >= created_us)
        with self._reading() as session:
            last_us = session.exec(select(func.max(KeySecret.created_us))).one()
            return last_us or 0, frozenset(session.exec(query).all())

    def every(self, kind: type[Row], equals: Mapping[str, object] | None = None) -> Sequence[Row]:
        """All rows of a kind, filtered by equality, in the order of their keys."""
        return self.page(kind, equals)

    def page(
        self,
        kind: type[Row],
        equals: Mapping[str, object] | None = None,
        *where: ColumnElement[bool],
        behind: tuple[Any, ...] | None = None,
        limit: int | None = None,
    ) -> Sequence[Row]:
        """The first rows behind a primary key."""
        key = [col(getattr(kind, name)) for name in self.key_of(kind)]
        query = select(kind).filter_by(**(equals or {})).where(*where).order_by(*key).limit(limit)
        if behind is not None:
            query = query.where(tuple_(*key) > behind)
        with self._reading() as session:
            return session.exec(query).all()

    @staticmethod
    def key_of(kind: type[SQLModel]) -> list[str]:
        """The names of a primary key's columns."""
        return [column.name for column in inspect(kind).primary_key]

    def one(self, kind: type[Row], key: object) -> Row | None:
        with self._reading() as session:
            return session.get(kind, key)

    def organization_of(self, scope: str) -> str:
        """The organization that a scope (`org:..`, `project:..`, `key:..`) belongs to, or ''."""
        kind, _, object_id = scope.partition("/")[0].partition(":")
        with self._reading() as session:
            if kind == "key" and (key := session.get(ApiKey, object_id)):
                return key.org_id
            if kind == "project" and (project := session.get(Project, object_id)):
                return project.org_id
        return object_id if kind == "org" else ""

    def catalog(self) -> CatalogRows:
        with self._reading() as session:
            row = session.get(CatalogRevision, 1)
            models = session.exec(select(ModelRow).where(col(ModelRow.enabled))).all()
            variants = session.exec(select(VariantRow).where(col(VariantRow.enabled))).all()
            pools = session.exec(select(PoolRow).where(col(PoolRow.enabled))).all()
            hardware = session.exec(select(HardwareRow).where(col(HardwareRow.enabled))).all()
            providers = session.exec(select(ProviderRow)).all()
            lists = session.exec(approved_lists()).all()
            revision = row.revision if row else 0
            return CatalogRows(revision, models, variants, pools, hardware, providers, lists)

    def bought_models(self, now_us: int) -> dict[str, frozenset[str]]:
        with self._reading() as session:
            return bought_models(session, now_us)

    # --- changing --------------------------------------------------------------------------

    def change(self, audit: Audit, work: Callable[[Session], Row]) -> Row:
        """Do `work` in one transaction with its audit row and a new catalog revision."""
        with self._store.write() as conn, _session(conn) as session:
            row = work(session)
            session.add(audit)
            revision = session.get(CatalogRevision, 1, with_for_update=True)
            revision = revision or CatalogRevision(id=1, revision=0)
            revision.revision += 1
            session.add(revision)
            session.flush()
            return row

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        with self._store.read() as conn, _session(conn) as session:
            yield session


def _session(conn: Connection) -> Session:
    """Its rows are read on after the transaction, which is not its own."""
    return Session(conn, expire_on_commit=False)


def _narrow(owners: Sequence[str], *, apart: bool) -> SelectOfScalar[NarrowLimits]:
    """Limits of single end users (`apart`), or those of models and of every end user."""
    is_apart = and_(col(NarrowLimits.kind) == USER, col(NarrowLimits.name) != EVERY_USER)
    query = select(NarrowLimits).where(col(NarrowLimits.owner).in_(owners))
    return query.where(is_apart if apart else not_(is_apart))


def _of_scopes(session: Session, kind: type[Scoped], scopes: Sequence[str]) -> dict[str, Scoped]:
    rows = session.exec(select(kind).where(col(kind.scope).in_(scopes))).all()
    return {row.scope: row for row in rows}
