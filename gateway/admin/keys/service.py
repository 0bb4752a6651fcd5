"""Keys as an administrator makes, rotates and revokes them; of a secret only the SHA-256 stays."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from sqlmodel import Session, select

from gateway.admin.use_cases import AdminStore, NotThere, admin_store, must_get
from gateway.api.dependencies import parts_of
from gateway.api.fields import require_future
from gateway.catalog.bootstrap import display_prefix
from gateway.tenants.ids import NewId, key_digest, new_secret
from gateway.tenants.tables import ApiKey, KeySecret, Project


@dataclass(frozen=True, slots=True)
class KeyService:
    """Raises ApiError 404 for an unknown project or key."""

    store: AdminStore
    new_id: NewId
    entropy: Callable[[int], bytes]

    async def create(
        self, project_id: str, name: str, expires_us: int | None
    ) -> tuple[ApiKey, str]:
        """The row and the secret, which nobody can read again. Raises ApiError 400 for an end that
        has passed."""
        require_future(expires_us, self.store.clock())
        secret = new_secret(self.entropy)

        def work(session: Session) -> ApiKey:
            project = must_get(session, Project, project_id)
            row = ApiKey(
                id=self.new_id("key"),
                project_id=project_id,
                org_id=project.org_id,
                name=name,
                prefix=display_prefix(secret),
                created_us=self.store.now_us,
                expires_us=expires_us,
            )
            session.add(row)
            session.flush()
            session.add(self._secret_of(row, secret))
            return row

        return await self.store.change("key.create", project_id, work, name=name), secret

    async def rotate(self, key_id: str, overlap_s: float) -> tuple[ApiKey, str]:
        """A new secret of the same key; those it had end after `overlap_s`, if not before.

        Limits, budget and what was spent stay, for they belong to the key. A key that is revoked
        is not there.
        """
        secret = new_secret(self.entropy)
        ends_us = self.store.now_us + round(overlap_s * 1e6)

        def work(session: Session) -> ApiKey:
            row = must_get(session, ApiKey, key_id)
            if row.revoked_us is not None:
                raise NotThere(key_id)
            for old in session.exec(select(KeySecret).where(KeySecret.key_id == key_id)):
                if old.expires_us is None or old.expires_us > ends_us:
                    old.expires_us = ends_us
            row.prefix = display_prefix(secret)
            session.add(self._secret_of(row, secret))
            return row

        return await self.store.change("key.rotate", key_id, work, overlap_s=overlap_s), secret

    async def revoke(self, key_id: str) -> ApiKey:
        """Effective in every gateway within one revision poll; revoking twice is no error."""

        def work(session: Session) -> ApiKey:
            row = must_get(session, ApiKey, key_id)
            row.revoked_us = row.revoked_us or self.store.now_us
            session.add(row)
            return row

        return await self.store.change("key.revoke", key_id, work)

    def _secret_of(self, key: ApiKey, secret: str) -> KeySecret:
        return KeySecret(hash=key_digest(secret), key_id=key.id, created_us=self.store.now_us)


async def keys_of(request: Request) -> KeyService:
    parts = parts_of(request)
    return KeyService(admin_store(parts), parts.new_id, parts.outside.entropy)


Keys = Annotated[KeyService, Depends(keys_of)]
