"""From a bearer key to a principal: cached, bounded, and forgotten in time."""

from __future__ import annotations

import asyncio

import pytest

from gateway import auth
from gateway.auth import KeyDirectory, Principal, bearer
from gateway.errors import ApiError
from gateway.identity import key_digest

GOOD = "Bearer sk-good"


class Keys:
    """The lookup: one good key, counted, and as slow as `gate` is closed."""

    def __init__(self) -> None:
        self.known = {key_digest("sk-good"): Principal("org_1", "proj_1", "key_1", ())}
        self.lookups = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.now_s = 1000.0

    async def find(self, digest: bytes) -> Principal | None:
        self.lookups += 1
        found = self.known.get(digest)
        await self.gate.wait()
        return found

    def directory(self) -> KeyDirectory:
        return KeyDirectory(self.find, lambda: self.now_s)


async def refused(directory: KeyDirectory, authorization: str | None) -> None:
    with pytest.raises(ApiError) as caught:
        await directory.authenticate(authorization)
    assert (caught.value.status, caught.value.code) == (401, "invalid_api_key")


async def test_known_key_is_looked_up_once_while_it_is_fresh() -> None:
    keys = Keys()
    directory = keys.directory()
    for _ in range(5):
        assert (await directory.authenticate(GOOD)).key == "key_1"
    assert keys.lookups == 1
    keys.now_s += auth.KNOWN_TTL_S
    await directory.authenticate(GOOD)
    assert keys.lookups == 2


async def test_wrong_key_is_remembered_too_but_for_a_shorter_while() -> None:
    keys = Keys()
    directory = keys.directory()
    for _ in range(5):
        await refused(directory, "Bearer nope")
    assert keys.lookups == 1
    keys.now_s += auth.UNKNOWN_TTL_S
    await refused(directory, "Bearer nope")
    assert keys.lookups == 2


async def test_flood_of_wrong_keys_takes_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "CACHE_KEYS_MAX", 50)
    keys = Keys()
    directory = keys.directory()
    for number in range(200):
        await refused(directory, f"Bearer nope-{number}")
    assert len(directory._cache) <= 50
    assert (await directory.authenticate(GOOD)).key == "key_1"


async def test_forgotten_key_is_looked_up_again_and_may_be_revoked() -> None:
    keys = Keys()
    directory = keys.directory()
    await directory.authenticate(GOOD)
    keys.known.clear()
    directory.forget()
    await refused(directory, GOOD)


async def test_key_revoked_while_it_is_looked_up_is_not_cached() -> None:
    """The lookup read it before it was revoked, and answers after the directory has forgotten."""
    keys = Keys()
    directory = keys.directory()
    keys.gate.clear()
    slow = asyncio.create_task(directory.authenticate(GOOD))
    await asyncio.sleep(0)
    keys.known.clear()
    directory.forget()
    keys.gate.set()
    await slow
    await refused(directory, GOOD)


async def test_key_expires_although_it_is_cached() -> None:
    keys = Keys()
    keys.known[key_digest("sk-good")] = Principal("o", "p", "k", (), expires_s=1010.0)
    directory = keys.directory()
    assert await directory.authenticate(GOOD)
    keys.now_s = 1010.0
    await refused(directory, GOOD)


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", "sk-good"])
async def test_header_that_bears_no_key_is_refused_without_a_lookup(header: str | None) -> None:
    keys = Keys()
    await refused(keys.directory(), header)
    assert keys.lookups == 0


def test_scheme_is_read_in_any_case() -> None:
    assert bearer("bEaReR  sk-1 ") == "sk-1"
