"""From a bearer key to a principal: cached, bounded, and forgotten in time."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from gateway.errors import ApiError, overloaded
from gateway.tenants import auth
from gateway.tenants.auth import KeyDirectory, Principal, bearer
from gateway.tenants.ids import key_digest

GOOD = "Bearer sk-good"


class Keys:
    """Where keys are kept: counted, away if told so, and as slow as `gate` is closed."""

    def __init__(self) -> None:
        self.known = {key_digest("sk-good"): Principal("org_1", "proj_1", "key_1", ())}
        self.made_us = dict.fromkeys(self.known, 0)
        self.lookups = 0
        self.readings = 0
        self.is_away = False
        self.gate = asyncio.Event()
        self.gate.set()
        self.now_s = 1000.0

    async def find(self, digest: bytes) -> Principal | None:
        self.lookups += 1
        found = self.known.get(digest)
        await self._answer()
        return found

    async def secrets_since(self, created_us: int) -> tuple[int, frozenset[bytes]]:
        self.readings += 1
        made = frozenset(d for d, at_us in self.made_us.items() if at_us >= created_us)
        await self._answer()
        return max(self.made_us.values()), made

    async def _answer(self) -> None:
        await self.gate.wait()
        if self.is_away:
            raise overloaded("Keys cannot be looked up right now.", 1.0)

    def make(self, secret: str, at_us: int) -> None:
        digest = key_digest(secret)
        self.known[digest] = Principal("org_1", "proj_1", "key_2", ())
        self.made_us[digest] = at_us

    def directory(self) -> KeyDirectory:
        return KeyDirectory(self, lambda: self.now_s)


async def refused(
    directory: KeyDirectory,
    authorization: str | None,
    status: int = 401,
    code: str = "invalid_api_key",
) -> None:
    with pytest.raises(ApiError) as caught:
        await directory.authenticate(authorization)
    assert (caught.value.status, caught.value.code) == (status, code)


async def test_known_key_is_looked_up_once_while_it_is_fresh() -> None:
    keys = Keys()
    directory = keys.directory()
    for _ in range(5):
        assert (await directory.authenticate(GOOD)).key == "key_1"
    assert keys.lookups == 1
    keys.now_s += auth.CACHE_TTL_S
    await directory.authenticate(GOOD)
    assert keys.lookups == 2


async def test_flood_of_various_wrong_keys_looks_nothing_up_and_takes_no_memory() -> None:
    keys = Keys()
    directory = keys.directory()
    for number in range(200):
        await refused(directory, f"Bearer nope-{number}")
    assert (keys.lookups, keys.readings) == (0, 1)
    assert (len(directory._cache), len(directory._digests)) == (0, 1)
    assert (await directory.authenticate(GOOD)).key == "key_1"


async def test_cache_of_known_keys_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "CACHE_KEYS_MAX", 50)
    keys = Keys()
    for number in range(200):
        keys.make(f"sk-{number}", at_us=number)
    directory = keys.directory()
    for number in range(200):
        await directory.authenticate(f"Bearer sk-{number}")
    assert len(directory._cache) == 50


async def test_new_key_works_once_the_directory_has_forgotten() -> None:
    keys = Keys()
    directory = keys.directory()
    await refused(directory, "Bearer sk-new")
    keys.make("sk-new", at_us=7)
    directory.forget()
    assert (await directory.authenticate("Bearer sk-new")).key == "key_2"


async def test_new_key_of_a_gateway_whose_clock_is_behind_works_too() -> None:
    keys = Keys()
    keys.make("sk-ahead", at_us=auth.CLOCK_SKEW_US)
    directory = keys.directory()
    await directory.authenticate("Bearer sk-ahead")
    keys.make("sk-behind", at_us=1)
    directory.forget()
    assert (await directory.authenticate("Bearer sk-behind")).key == "key_2"


async def test_callers_who_come_together_read_the_newest_secrets_once() -> None:
    keys = Keys()
    directory = keys.directory()
    keys.gate.clear()
    callers = [asyncio.create_task(directory.authenticate(GOOD)) for _ in range(5)]
    await asyncio.sleep(0)
    keys.gate.set()
    await asyncio.gather(*callers)
    assert keys.readings == 1


async def test_database_away_is_no_wrong_key() -> None:
    keys = Keys()
    directory = keys.directory()
    keys.is_away = True
    for secret in (GOOD, "Bearer nope"):
        await refused(directory, secret, 503, "server_is_overloaded")
    keys.is_away = False
    assert await directory.authenticate(GOOD)


async def test_wrong_key_is_refused_by_what_is_known_while_the_database_is_away() -> None:
    keys = Keys()
    directory = keys.directory()
    await directory.authenticate(GOOD)
    keys.is_away = True
    await refused(directory, "Bearer nope")
    assert await directory.authenticate(GOOD)


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
    await refused(directory, "Bearer nope")
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


async def test_key_of_a_frozen_organization_is_known_and_forbidden() -> None:
    keys = Keys()
    digest = key_digest("sk-good")
    keys.known[digest] = replace(keys.known[digest], is_active=False)
    await refused(keys.directory(), GOOD, 403, "organization_frozen")


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", "Basic abc", "sk-good"])
async def test_header_that_bears_no_key_is_refused_without_a_lookup(header: str | None) -> None:
    keys = Keys()
    await refused(keys.directory(), header)
    assert (keys.lookups, keys.readings) == (0, 0)


def test_scheme_is_read_in_any_case() -> None:
    assert bearer("bEaReR  sk-1 ") == "sk-1"
