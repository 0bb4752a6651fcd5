"""Documents in versions as an administrator keeps them: stored as drafts, put into force with a
comment, and rolled back."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

from gateway.admin.use_cases import ADMIN, AdminStore, NotThere, attempt
from gateway.admin.versions.schemas import VersionActivationBody, VersionBody, VersionRollbackBody
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import ApiError
from gateway.versions.keeper import RunningVersion, VersionKeeper
from gateway.versions.store import (
    Author,
    StoredVersion,
    VersionStatus,
    VersionStore,
    activate_version,
    add_version,
)
from gateway.versions.tables import Activation, Kind, Version


@dataclass(frozen=True, slots=True)
class VersionInForce(StoredVersion):
    gateways: Sequence[RunningVersion]


@dataclass(frozen=True, slots=True)
class VersionService:
    """Raises ApiError: 404 for an unknown version, 409 where another one is active than was
    expected, and what `require_valid` raises for a document."""

    kind: Kind
    store: AdminStore
    versions: VersionStore
    keeper: VersionKeeper[Any]
    require_valid: Callable[[str], Awaitable[object]]

    async def page(self, request: PageRequest) -> PageRows[StoredVersion]:
        """The newest first, without their documents."""

        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, StoredVersion]]:
            rows = self.versions.page(None if behind is None else behind[0], limit)
            return [((each.row.version,), each) for each in rows]

        return await attempt(lambda: read_page(request, Source((int,), read)))

    async def version(self, version: int) -> StoredVersion:
        def work() -> StoredVersion:
            stored = self.versions.version(version)
            if stored is None:
                raise NotThere(version)
            return stored

        return await attempt(work)

    async def in_force(self) -> VersionInForce:
        """With what each gateway runs."""
        active = await self._active_version()
        if active is None:
            raise ApiError(404, "No version is active.", code="not_found")
        now = await self.version(active)
        gateways = await self.keeper.gateways()
        return VersionInForce(now.row, now.status, now.activation, gateways)

    async def create(self, body: VersionBody) -> StoredVersion:
        """A draft."""
        await self.require_valid(body.document)
        author = self._author(body.comment)
        row = await self.store.change(
            f"{self.kind.name}.create",
            lambda row: str(row.version),
            lambda session: add_version(session, self.kind, body.document, author),
            comment=body.comment,
        )
        return StoredVersion(row, VersionStatus.DRAFT, None)

    async def activate(self, version: int, body: VersionActivationBody) -> StoredVersion:
        """Without `expects`, what is active when this is asked for is expected: of two activations
        at once one wins."""
        expects = body.expects or await self._active_version()
        stored = await self.version(version)
        await self.require_valid(stored.row.document)
        return await self._put_into_force(version, body.comment, expects)

    async def rollback(self, body: VersionRollbackBody) -> StoredVersion:
        """Back to a version that was active. It is not checked again: what it names may be gone,
        and the way back stays open."""
        expects = await self._active_version()
        version = body.to or await attempt(self.versions.before_active)
        if version is None and expects is not None and self.kind.neutral is not None:
            return await self._back_to_none(self.kind.neutral, body.comment, expects)
        if version is None:
            raise ApiError(409, "No version was active before this one.", code="conflict")
        if (await self.version(version)).status is VersionStatus.DRAFT:
            words = f"Version {version} was never active: activate it."
            raise ApiError(409, words, code="conflict")
        return await self._put_into_force(version, body.comment, expects, is_rollback=True)

    async def _back_to_none(self, neutral: str, comment: str, expects: int) -> StoredVersion:
        """Nothing was in force before the active version: what says nothing comes into force."""
        author = self._author(comment)

        def work(session: Session) -> Version:
            row = add_version(session, self.kind, neutral, author)
            activate_version(
                *(session, self.kind, row.version, author), expects=expects, is_rollback=True
            )
            return row

        action = f"{self.kind.name}.rollback"
        detail = {"comment": comment, "before": expects}
        row = await self.store.change(action, lambda row: str(row.version), work, **detail)
        await self.keeper.refresh()
        return await self.version(row.version)

    async def _put_into_force(
        self, version: int, comment: str, expects: int | None, *, is_rollback: bool = False
    ) -> StoredVersion:
        author, verb = self._author(comment), "rollback" if is_rollback else "activate"

        def work(session: Session) -> Activation:
            return activate_version(
                *(session, self.kind, version, author), expects=expects, is_rollback=is_rollback
            )

        action = f"{self.kind.name}.{verb}"
        await self.store.change(action, str(version), work, comment=comment, before=expects)
        await self.keeper.refresh()
        return await self.version(version)

    async def _active_version(self) -> int | None:
        active = await attempt(self.versions.active)
        return None if active is None else active.version

    def _author(self, comment: str) -> Author:
        return Author(ADMIN, self.store.now_us, comment)
