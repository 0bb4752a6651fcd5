"""Every SQL statement of the gateway's own tables: tenants, keys, limits, models, pools, audit.

Blocking, to be called off the event loop. Each public method is one transaction. A change to
anything that gateways cache raises the catalog revision in the same transaction, so that a
revoked key is noticed by whoever polls the revision.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Engine, create_engine, event
from sqlmodel import Session, SQLModel, col, select

from gateway.tables import (
    ApiKey,
    Audit,
    CatalogRevision,
    Limits,
    ModelRow,
    Organization,
    PoolRow,
    Project,
)

BUSY_TIMEOUT_MS = 10_000
Row = TypeVar("Row", bound=SQLModel)


def open_engine(sql_url: str) -> Engine:
    """An engine whose SQLite transactions take the write lock at once (no late upgrade)."""
    if not sql_url.startswith("sqlite"):
        return create_engine(sql_url, pool_size=4, max_overflow=0, pool_pre_ping=True)
    engine = create_engine(sql_url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000})
    event.listen(engine, "connect", _prepare_sqlite)
    return engine


def _prepare_sqlite(connection: object, _record: object) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
    cursor.close()


class Conflict(ValueError):
    """The change contradicts what is there (a name taken, a parent missing)."""


class TenantStore:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # --- reading ---------------------------------------------------------------------------

    def revision(self) -> int:
        with self._reading() as session:
            row = session.get(CatalogRevision, 1)
            return row.revision if row else 0

    def key_by_hash(self, digest: bytes) -> tuple[ApiKey, Sequence[Limits]] | None:
        """The key and the limits of its three scopes, if it, its project and tenant are active."""
        query = (
            select(ApiKey)
            .join(Project, col(Project.id) == col(ApiKey.project_id))
            .join(Organization, col(Organization.id) == col(ApiKey.org_id))
            .where(ApiKey.hash == digest, col(ApiKey.revoked_us).is_(None))
            .where(Project.status == "active", Organization.status == "active")
        )
        with self._reading() as session:
            key = session.exec(query).first()
            if key is None:
                return None
            scopes = [f"key:{key.id}", f"project:{key.project_id}", f"org:{key.org_id}"]
            limits = session.exec(select(Limits).where(col(Limits.scope).in_(scopes))).all()
            return key, limits

    def every(
        self, kind: type[Row], equals: Mapping[str, object] | None = None, limit: int = 1000
    ) -> Sequence[Row]:
        """All rows of a kind, filtered by equality; bounded by `limit`."""
        query = select(kind).filter_by(**(equals or {})).limit(limit)
        with self._reading() as session:
            return session.exec(query).all()

    def one(self, kind: type[Row], key: object) -> Row | None:
        with self._reading() as session:
            return session.get(kind, key)

    def organization_of(self, scope: str) -> str:
        """The organization that a scope (`org:..`, `project:..`, `key:..`) belongs to, or ''."""
        kind, _, object_id = scope.partition(":")
        with self._reading() as session:
            if kind == "key" and (key := session.get(ApiKey, object_id)):
                return key.org_id
            if kind == "project" and (project := session.get(Project, object_id)):
                return project.org_id
        return object_id if kind == "org" else ""

    def catalog(self) -> tuple[int, Sequence[ModelRow], Sequence[PoolRow]]:
        with self._reading() as session:
            row = session.get(CatalogRevision, 1)
            models = session.exec(select(ModelRow).where(col(ModelRow.enabled))).all()
            pools = session.exec(select(PoolRow).where(col(PoolRow.enabled))).all()
            return (row.revision if row else 0), models, pools

    # --- changing --------------------------------------------------------------------------

    def change(self, audit: Audit, work: Callable[[Session], Row]) -> Row:
        """Do `work` in one transaction with its audit row and a new catalog revision."""
        with Session(self._engine, expire_on_commit=False) as session:
            if self._engine.dialect.name == "sqlite":
                session.connection().exec_driver_sql("BEGIN IMMEDIATE")
            row = work(session)
            session.add(audit)
            revision = session.get(CatalogRevision, 1, with_for_update=True)
            revision = revision or CatalogRevision(id=1, revision=0)
            revision.revision += 1
            session.add(revision)
            session.commit()
            return row

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        with Session(self._engine, expire_on_commit=False) as session:
            yield session
