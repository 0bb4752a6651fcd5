"""Every SQL statement of documents in versions. Blocking, to be called off the event loop.

A version is active if the last activation names it, retired if an earlier one does, else a draft.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import func
from sqlalchemy.orm import defer
from sqlmodel import Session, col, select

from billing.db.engine import Store, take_turns
from gateway.tenants.store import Conflict
from gateway.versions.tables import Activation, Kind, Version


class VersionStatus(StrEnum):
    DRAFT = "draft"
    ACTIVE = "active"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version and its last activation, where it has one."""

    row: Version
    status: VersionStatus
    activation: Activation | None

    @property
    def activated_us(self) -> int | None:
        return None if self.activation is None else self.activation.at_us

    @property
    def activated_by(self) -> str | None:
        return None if self.activation is None else self.activation.author

    @property
    def activation_comment(self) -> str | None:
        return None if self.activation is None else self.activation.comment


class Author(NamedTuple):
    """Who changes something, when (epoch microseconds) and why."""

    name: str
    at_us: int
    comment: str


class VersionStore:
    """What is stored, read."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self._kind = kind

    def active(self) -> Activation | None:
        """The last activation. It costs one row of an index."""
        with self._reading() as session:
            return last_activation(session, self._kind)

    def version(self, version: int) -> StoredVersion | None:
        """With its document."""
        with self._reading() as session:
            row = session.get(self._kind.versions, version)
            return None if row is None else _with_status(session, self._kind, [row])[0]

    def page(self, before: int | None, limit: int) -> Sequence[StoredVersion]:
        """The newest versions, or those older than `before`, without their documents."""
        table = self._kind.versions
        query = select(table).options(defer(table.document))  # type: ignore[arg-type]
        if before is not None:
            query = query.where(col(table.version) < before)
        newest_first = query.order_by(col(table.version).desc()).limit(limit)
        with self._reading() as session:
            return _with_status(session, self._kind, session.exec(newest_first).all())

    def before_active(self) -> int | None:
        """The version that was in force before the one that is. None where none was."""
        table = self._kind.activations
        query = select(table).order_by(col(table.number))
        with self._reading() as session:
            return version_before(session.exec(query).all())

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        with self._store.read() as conn:
            yield Session(conn, expire_on_commit=False)


def _with_status(session: Session, kind: Kind, rows: Sequence[Version]) -> list[StoredVersion]:
    table = kind.activations
    query = (
        select(table)
        .where(col(table.version).in_([row.version for row in rows]))
        .order_by(col(table.number))
    )
    last = {each.version: each for each in session.exec(query)}
    active = last_activation(session, kind)
    return [StoredVersion(row, _status(row, last, active), last.get(row.version)) for row in rows]


def _status(row: Version, activated: Iterable[int], active: Activation | None) -> VersionStatus:
    if active is not None and active.version == row.version:
        return VersionStatus.ACTIVE
    return VersionStatus.RETIRED if row.version in activated else VersionStatus.DRAFT


def version_before(activations: Iterable[Activation]) -> int | None:
    """Where a rollback goes: what was in force before the version that is, as if each rollback had
    undone the activations since the one that it went back to. Activations come oldest first."""
    versions: list[int] = []
    for each in activations:
        if each.is_rollback and each.version in versions:
            del versions[versions.index(each.version) + 1 :]
        elif versions[-1:] != [each.version]:
            versions.append(each.version)
    return versions[-2] if len(versions) > 1 else None


# ---- Changes, for a transaction that writes the audit log as well


def last_activation(session: Session, kind: Kind) -> Activation | None:
    table = kind.activations
    newest_first = select(table).order_by(col(table.number).desc())
    return session.exec(newest_first.limit(1)).first()


def add_version(session: Session, kind: Kind, document: str, author: Author) -> Version:
    """A draft, under the next number."""
    take_turns(session.connection(), kind.lock)
    newest = session.exec(select(func.max(col(kind.versions.version)))).one()
    row = kind.versions(
        version=(newest or 0) + 1,
        document=document,
        sha256=sha256(document.encode()).hexdigest(),
        comment=author.comment,
        author=author.name,
        created_us=author.at_us,
    )
    session.add(row)
    session.flush()
    return row


def activate_version(
    session: Session,
    kind: Kind,
    version: int,
    author: Author,
    *,
    expects: int | None,
    is_rollback: bool = False,
) -> Activation:
    """Put a version into force. Raises Conflict where another one than `expects` is, or where this
    one is already."""
    take_turns(session.connection(), kind.lock)
    active = last_activation(session, kind)
    active_version = None if active is None else active.version
    if active_version != expects:
        raise Conflict(f"version {active_version} is active, and not {expects}")
    if active_version == version:
        raise Conflict(f"version {version} is active already")
    row = kind.activations(
        number=1 if active is None else active.number + 1,
        version=version,
        is_rollback=is_rollback,
        comment=author.comment,
        author=author.name,
        at_us=author.at_us,
    )
    session.add(row)
    session.flush()
    return row
