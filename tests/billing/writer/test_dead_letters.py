"""Dead letters looked at, tried again and judged, on both databases."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from redis.asyncio import Redis
from sqlalchemy import text

from billing.costs.life_writer import LifeEntry, book_lives
from billing.costs.lifetimes import LifeReport
from billing.db.engine import Store
from billing.ledger import booking
from billing.ledger.booking import Failure, Record
from billing.ledger.report import Outcome as CheckOutcome
from billing.limits.holds import Holds
from billing.limits.keys import shard_of
from billing.prices.versions import load_book, put_into_force
from billing.queries import call_by_rid, known, open_call
from billing.spool.spool import Spool
from billing.types import SettledCall, UsageSource, encode
from billing.verify import verify
from billing.writer import dead_letters
from billing.writer.dead_letters import (
    AlreadyResolved,
    Letter,
    LetterOutcome,
    StillDead,
    UnknownLetter,
    ask_to_recount,
    judge,
    retry,
)
from tests.billing.calls import ADMITTED_US, opened_call, settled_call
from tests.billing.conftest import RATES
from tests.billing.ledger_parts import make_primer, make_writer, open_shards, writing

NOW_US = ADMITTED_US + 10**9
AMOUNT = 220 + 1120 + 1
SHARD = shard_of("org_1")
NEW_PRICES = "pv_new"


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def ended(rid: str = "req_1", amount: int = AMOUNT, **changes: object) -> SettledCall:
    return settled_call(opened_call(rid), amount, **changes)


def unpriced(rid: str = "req_1") -> SettledCall:
    return ended(rid, price_version=NEW_PRICES)


def record(payload: bytes, *, kind: str = "settled", rid: str = "req_1", entry: int = 1) -> Record:
    return Record(SHARD, f"{entry}-0", kind, rid, payload)


def tell(store: Store, *records: Record) -> None:
    """As the writer books a batch, and gives up at once what cannot be booked."""
    with store.write() as conn:
        booked = booking.book(conn, booking.read(records, load_book(store), NOW_US))
        booking.give_up(conn, booked.failures, NOW_US)


def told(store: Store, *calls: SettledCall) -> None:
    tell(store, *(record(encode(c), rid=c.rid, entry=n) for n, c in enumerate(calls, 1)))


def learn_prices(store: Store) -> None:
    put_into_force(
        store, RATES, by="test", now_us=NOW_US, effective_from_us=NOW_US, version_id=NEW_PRICES
    )


def reasons(store: Store) -> list[str]:
    return [letter.reason for letter in dead_letters.listed(store)]


def only(store: Store) -> Letter:
    (letter,) = dead_letters.listed(store)
    return letter


def law(store: Store, spool_root: Path | None = None) -> dict[str, tuple[CheckOutcome, str]]:
    report = verify(store, now_us=NOW_US, spool_root=spool_root)
    return {check.name: (check.outcome, check.detail) for check in report.checks}


def charged(store: Store, rid: str = "req_1") -> list[int]:
    found = call_by_rid(store, rid)
    return [] if found is None else [t["amount_nanousd"] for t in found.transfers]


NESTED = b'{"a":' * 5000 + b"1" + b"}" * 5000
"""Deeper than any reader follows."""


def test_what_is_nested_too_deeply_is_a_letter_like_any_other(store: Store) -> None:
    tell(store, record(NESTED), record(encode(ended("req_2")), rid="req_2", entry=2))
    with store.write() as conn:
        assert book_lives(conn, [LifeEntry("9-0", NESTED)], NOW_US) == 0
    assert sorted(reasons(store)) == ["malformed", "malformed_life"] and charged(store, "req_2")
    for letter in dead_letters.listed(store):
        with pytest.raises(StillDead, match="malformed"):
            retry(store, letter.number, by="ann", now_us=NOW_US)
        judge(store, letter.number, by="ann", note="nonsense", now_us=NOW_US)


# --- trying again --------------------------------------------------------------------------------


def test_a_call_without_a_price_is_booked_once_when_there_is_one(store: Store) -> None:
    told(store, unpriced())
    letter = only(store)
    assert (letter.reason, letter.rid, letter.kind) == ("unpriced", "req_1", "settled")
    with pytest.raises(StillDead, match=f"unpriced: .*{NEW_PRICES}"):
        retry(store, letter.number, by="ann", now_us=NOW_US)
    assert only(store).resolution is None and charged(store) == []
    learn_prices(store)
    booked = retry(store, letter.number, by="ann", now_us=NOW_US)
    assert booked.resolution is not None
    assert (booked.resolution.outcome, booked.resolution.by) == (LetterOutcome.BOOKED, "ann")
    assert retry(store, letter.number, by="bob", now_us=NOW_US + 1) == booked
    assert charged(store) == [AMOUNT]
    assert law(store)["no_dead_letter"] == (CheckOutcome.HOLDS, "0 judged, 1 booked later")


def test_all_who_try_at_once_book_once(store: Store) -> None:
    told(store, unpriced())
    number = only(store).number
    learn_prices(store)
    with ThreadPoolExecutor(4) as pool:
        done = list(
            pool.map(lambda by: retry(store, number, by=by, now_us=NOW_US), ("a", "b", "c", "d"))
        )
    assert len({letter.resolution for letter in done}) == 1
    assert charged(store) == [AMOUNT]


def test_what_cannot_be_read_stays_a_letter_and_says_why(store: Store) -> None:
    tell(store, record(b"{not json"), record(b"{}", kind="hearsay", entry=2))
    assert reasons(store) == ["malformed", "unknown_kind"]
    for letter, why in zip(dead_letters.listed(store), ("malformed", "hearsay"), strict=True):
        with pytest.raises(StillDead, match=why):
            retry(store, letter.number, by="ann", now_us=NOW_US)
    assert len(dead_letters.listed(store)) == 2


def test_what_sql_refuses_stays_a_letter(store: Store) -> None:
    refused = record(encode(ended(first_token_us=2**70)))
    with store.write() as conn:
        booking.give_up(conn, [Failure(refused, "unbookable", "too large")], NOW_US)
    with pytest.raises(StillDead, match="unbookable"):
        retry(store, only(store).number, by="ann", now_us=NOW_US)
    assert only(store).resolution is None


def test_a_call_that_was_booked_meanwhile_is_not_booked_again(store: Store) -> None:
    told(store, unpriced())
    learn_prices(store)
    told(store, unpriced())  # a gateway that came back has told its spool
    booked = retry(store, only(store).number, by="ann", now_us=NOW_US)
    assert booked.resolution is not None
    assert booked.resolution.note == "the ledger had its call already"
    assert charged(store) == [AMOUNT]


def test_an_exact_letter_of_an_estimated_call_corrects_it(store: Store) -> None:
    told(store, unpriced())
    told(store, ended(source=UsageSource.ESTIMATED, output=0, amount=221))
    learn_prices(store)
    retry(store, only(store).number, by="ann", now_us=NOW_US)
    assert sorted(charged(store)) == [221, 221, AMOUNT]
    report = verify(store, now_us=NOW_US)
    assert report.ok, report.as_text()


def test_a_letter_of_another_exact_end_is_left_to_a_person(store: Store) -> None:
    told(store, unpriced())
    told(store, ended(finish_reason="length"))
    learn_prices(store)
    with pytest.raises(StillDead, match="another exact record"):
        retry(store, only(store).number, by="ann", now_us=NOW_US)
    assert reasons(store) == ["unpriced"]


def test_a_letter_that_says_another_amount_is_booked_and_leaves_the_amount_to_a_person(
    store: Store,
) -> None:
    told(store, msgspec.structs.replace(unpriced(), amount_nanousd=5))
    learn_prices(store)
    retry(store, only(store).number, by="ann", now_us=NOW_US)
    assert charged(store) == [AMOUNT]
    assert reasons(store) == ["amount_mismatch"]


@pytest.mark.parametrize(
    ("calls", "reason"),
    [
        ([ended(), ended(finish_reason="length")], "conflict"),
        ([ended(amount=5)], "amount_mismatch"),
    ],
    ids=["conflict", "amount_mismatch"],
)
def test_what_only_a_person_can_judge_is_not_tried(
    store: Store, calls: Sequence[SettledCall], reason: str
) -> None:
    told(store, *calls)
    assert (only(store).reason, only(store).is_of_people) == (reason, True)
    with pytest.raises(StillDead, match="a person has to judge"):
        retry(store, only(store).number, by="ann", now_us=NOW_US)
    assert charged(store) == [AMOUNT]


def test_a_report_of_a_life_is_tried_again_as_what_it_is(store: Store) -> None:
    life = LifeReport(
        replica="r",
        pool="p",
        model="m",
        nanousd_per_s=9,
        started_us=1,
        ready_us=None,
        until_us=5_000_001,
        busy_us=0,
        ended=False,
    )
    with store.write() as conn:
        for entry, payload in (("1-0", b"{}"), ("2-0", b"[]")):
            book_lives(conn, [LifeEntry(entry, payload)], NOW_US)
        conn.execute(
            text(
                "INSERT INTO dead_letter (shard, entry, kind, rid, reason, detail, payload, "
                "created_us) VALUES (-1, '3-0', '', '', 'malformed_life', '', :payload, 1)"
            ),
            {"payload": msgspec.json.encode(life)},
        )
    first, _, readable = dead_letters.listed(store)
    with pytest.raises(StillDead, match="malformed_life"):
        retry(store, first.number, by="ann", now_us=NOW_US)
    retry(store, readable.number, by="ann", now_us=NOW_US)
    with store.read() as conn:
        owed = "SELECT credits FROM account WHERE code = 'payable:pool:p'"
        assert conn.execute(text(owed)).scalar_one() == 45


@pytest.mark.parametrize("kind", ["settled", "reserved"])
def test_the_kind_of_an_old_letter_is_told_by_its_payload(store: Store, kind: str) -> None:
    payload = encode(ended()) if kind == "settled" else encode(opened_call())
    with store.write() as conn:
        booking.give_up(conn, [Failure(record(payload, kind=""), "malformed", "old")], NOW_US)
    assert only(store).kind == kind
    retry(store, only(store).number, by="ann", now_us=NOW_US)
    found = call_by_rid(store, "req_1") if kind == "settled" else open_call(store, "req_1")
    assert found is not None


# --- judging -------------------------------------------------------------------------------------


def test_a_judged_letter_stays_and_breaks_no_law_any_more(store: Store) -> None:
    told(store, ended(amount=5))
    assert law(store)["no_dead_letter"][0] is CheckOutcome.BROKEN
    judged = judge(store, only(store).number, by="ann", note="a wrong page", now_us=NOW_US)
    assert judged.resolution is not None
    assert (judged.resolution.note, judged.resolution.at_us) == ("a wrong page", NOW_US)
    assert law(store)["no_dead_letter"] == (CheckOutcome.HOLDS, "1 judged, 0 booked later")
    assert dead_letters.listed(store) == []
    assert dead_letters.listed(store, resolved_too=True) == [judged]
    assert dead_letters.counts(store) == (0, 0, 1)


def test_what_became_of_a_letter_is_written_once(store: Store) -> None:
    told(store, unpriced("req_1"), unpriced("req_2"))
    one, other = (letter.number for letter in dead_letters.listed(store))
    judge(store, one, by="ann", note="never priced", now_us=NOW_US)
    learn_prices(store)
    retry(store, other, by="ann", now_us=NOW_US)
    for number, was in ((one, "judged by ann: never priced"), (other, "booked by ann")):
        with pytest.raises(AlreadyResolved, match=was):
            judge(store, number, by="bob", note="no", now_us=NOW_US)
    with pytest.raises(AlreadyResolved, match="judged by ann"):
        retry(store, one, by="bob", now_us=NOW_US)
    assert charged(store, "req_1") == []


def test_a_letter_that_is_not_there_is_named(store: Store) -> None:
    for work in (
        lambda: retry(store, 7, by="a", now_us=1),
        lambda: judge(store, 7, by="a", note="n", now_us=1),
        lambda: dead_letters.one(store, 7),
    ):
        with pytest.raises(UnknownLetter, match="7"):
            work()


def test_nothing_waits_for_a_call_that_was_written_off(store: Store, tmp_path: Path) -> None:
    """Its spool says that it was admitted, and SQL will never have it."""
    spool = Spool(tmp_path, "gw-1")
    spool.opened(opened_call())
    spool.closed(unpriced())
    spool.close()
    tell(store, record(encode(opened_call()), kind="reserved"), record(encode(unpriced()), entry=2))
    assert open_call(store, "req_1") is not None
    judge(store, only(store).number, by="ann", note="a test", now_us=NOW_US)
    assert open_call(store, "req_1") is None
    assert known(store, ["req_1", "req_2"]).keys() == {"req_1"}
    found = law(store, tmp_path)
    assert found["I15 nothing_missing"][0] is CheckOutcome.HOLDS
    assert found["no_dead_letter"][0] is CheckOutcome.HOLDS


def test_a_call_whose_opening_alone_was_written_off_is_still_waited_for(store: Store) -> None:
    tell(store, record(b"{", kind="reserved"))
    judge(store, only(store).number, by="ann", note="a test", now_us=NOW_US)
    assert known(store, ["req_1"]) == {}


def test_letters_are_listed_page_by_page(store: Store) -> None:
    told(store, *(unpriced(f"req_{n}") for n in range(5)))
    first = dead_letters.listed(store, limit=2)
    rest = dead_letters.listed(store, after=first[-1].number)
    assert [letter.rid for letter in (*first, *rest)] == [f"req_{n}" for n in range(5)]


# --- what Redis counts ---------------------------------------------------------------------------


async def spent(redis: Redis) -> int:
    return (await Holds(redis).money("org_1", "org:org_1")).spent.total_nanousd


async def test_redis_counts_what_was_booked_after_it_was_primed(redis: Redis, store: Store) -> None:
    async with writing(make_writer(redis, store)):
        primer = make_primer(redis, store)
        told(store, unpriced())
        await primer.turn()
        learn_prices(store)
        booked = retry(store, only_open(store), by="ann", now_us=NOW_US)
        assert await spent(redis) == 0
        await ask_to_recount(redis, booked)
        await primer.turn()
        assert await spent(redis) == AMOUNT
        before = await Holds(redis).shard_epochs()
        await primer.turn()
        assert await Holds(redis).shard_epochs() == before, "once"


def only_open(store: Store) -> int:
    return only(store).number


async def test_shards_stay_open_where_no_ledger_runs(redis: Redis, store: Store) -> None:
    """Whoever asks for a recount closes nothing: it is the primer that does, and opens again."""
    await open_shards(redis)
    told(store, ended(amount=5))
    judged = await asyncio.to_thread(
        judge, store, only(store).number, by="ann", note="a test", now_us=int(time.time() * 1e6)
    )
    await ask_to_recount(redis, judged)
    epochs = await Holds(redis).shard_epochs()
    assert {epoch.state for epoch in epochs.values()} == {"open"}
