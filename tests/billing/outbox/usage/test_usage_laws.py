"""The law of told usage: batches put together, each id once, are what the ledger has booked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from billing.db.engine import Store
from billing.outbox import store as rows
from billing.outbox.keeper import OutboxKeeper
from billing.outbox.sender import Sent, WebhookSender
from billing.outbox.usage import batches, places
from billing.types import UsageSource
from tests.billing.outbox.test_outbox import SECRETS
from tests.billing.outbox.usage.listening import START_US, book, booked, follow, once, told
from tests.laws.examples import examples
from tests.laws.ledgers import fresh, priced
from tests.laws.test_ledger_laws import RATES

ORGS = {"wh_all": "", "wh_1": "org_1", "wh_2": "org_2"}
HOUR_US = 3_600_000_000
CALLS_MAX = 3


class Killed(Exception):
    """The process ends between sending and noting."""


@dataclass(slots=True)
class Wire:
    """Receivers that take a batch, refuse it, or take it and have the sender die. What each took is
    kept with the id of the batch."""

    timeout_s: float = 10.0
    answers: list[str] = field(default_factory=list)
    took: dict[str, list[tuple[str, bytes]]] = field(default_factory=dict)

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> Sent:
        answer = self.answers.pop() if self.answers else "takes"
        if answer == "refuses":
            return Sent(503)
        self.took.setdefault(url, []).append((headers["webhook-id"], body))
        if answer == "kills":
            raise Killed
        return Sent(200)


class World:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.wire = Wire()
        self.now_us = START_US
        self.keeper = self._keeper()
        row = {"events": ["usage"], "note": "", "is_enabled": True, "secret": SECRETS[0]}
        row |= {"previous_secret": "", "previous_until_us": 0, "created_us": 1, "changed_us": 1}
        with store.write() as conn:
            for name, org in ORGS.items():
                rows.insert_endpoint(conn, row | {"endpoint_id": name, "url": name, "org": org})

    def _keeper(self) -> OutboxKeeper:
        return OutboxKeeper(
            *(self.store, cast(WebhookSender, self.wire)),
            interval_s=1.0,
            keep_days=90.0,
            usage_interval_s=0.0,
            now=lambda: self.now_us / 1e6,
        )

    def turn(self) -> int:
        try:
            return asyncio.run(self.keeper.turn())
        except ExceptionGroup as group:
            assert group.split(Killed)[1] is None
            self.keeper = self._keeper()
            return 1
        finally:
            self.now_us += HOUR_US

    def settle(self) -> None:
        """Go on until nothing is left to send, with receivers that take all."""
        self.wire.answers = []
        quiet = 0
        for _ in range(300):
            quiet = 0 if self.turn() else quiet + 1
            if quiet == 30:  # hours, longer than the longest pause after a few failures
                return
        raise AssertionError("there is always something to send")


calls = st.lists(
    st.fixed_dictionaries(
        {
            "rid": st.sampled_from([f"req_{number}" for number in range(8)]),
            "output": st.integers(0, 3),
            "input": st.integers(0, 1),
            "source": st.sampled_from(UsageSource),
            "late_h": st.sampled_from([0, 0, 1, 100]),
        }
    ),
    max_size=6,
)
steps = st.one_of(
    st.tuples(st.just("book"), calls),
    st.tuples(st.just("turn"), st.lists(st.sampled_from(["takes", "refuses", "kills"]))),
    st.tuples(st.just("replay"), st.sampled_from(sorted(ORGS))),
)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with priced(RATES) as path:
        yield path


@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(before=calls, happens=st.lists(steps, max_size=10))
def test_what_is_told_is_what_is_booked_whatever_fails(
    template: Path, before: list[dict[str, Any]], happens: list[tuple[str, Any]]
) -> None:
    with fresh(template) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "CALLS_MAX", CALLS_MAX)
        world = World(store)
        _book(world, before)
        after_us = follow(store, *ORGS)
        for what, how in happens:
            if what == "book":
                _book(world, how)
            elif what == "turn":
                world.wire.answers = list(how)
                world.turn()
            else:
                with store.write() as conn:
                    rows.replay(conn, how, world.now_us)
        world.settle()
        for name, org in ORGS.items():
            _holds(world, name, booked(store, org, after_us))
        with store.read() as conn:
            kept = conn.execute(select(func.count()).select_from(places.PLACE)).scalar_one()
        assert kept == 0


def _book(world: World, calls: list[dict[str, Any]]) -> None:
    """A call has one organization, and may be in a batch twice. The clock may stand meanwhile."""
    given = []
    for each in calls:
        fields = dict(each)
        ended_us = world.now_us - fields.pop("late_h") * HOUR_US
        org = f"org_{1 + int(fields['rid'][-1]) % 2}"
        given.append({**fields, "org": org, "ended_us": ended_us})
    book(world.store, world.now_us, *given)


def _holds(world: World, name: str, booked: dict[str, int]) -> None:
    took = world.wire.took.get(name, [])
    events = once(body for _, body in took)
    assert told(events) == booked
    bodies: dict[str, bytes] = {}
    for event_id, body in took:
        assert bodies.setdefault(event_id, body) == body, "a repetition is the same batch"
        assert 0 < len({event["data"]["call"] for event in json.loads(body)}) <= CALLS_MAX
    seen: set[str] = set()
    for event_id, event in events.items():
        seen.add(event_id)
        corrects = event["data"].get("corrects", "").removesuffix(":1")
        later = {each for each in events if each not in seen}
        assert corrects not in later, "a correction is behind what it corrects"
