"""VAT ids that are looked up: what an answer is worth, at a real server, and what parks."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from billing.db.engine import Store
from billing.invoices import life
from billing.invoices.guards import Guards
from billing.invoices.months import list_invoices, run_invoices
from billing.invoices.result import InvoiceResult
from billing.parties import store as parties
from billing.settings import TaxSettings
from billing.taxes import vat_store
from billing.taxes.vat_keeper import VatKeeper
from billing.taxes.vat_lookup import (
    DAY_US,
    NoVatAnswer,
    VatAnswer,
    VatCheck,
    can_be_looked_up,
    doubts,
    is_due,
)
from billing.taxes.vies import ANSWER_BYTES_MAX, Vies
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    caught_up,
    holds,
)
from tests.billing.ledger_parts import eventually
from tests.billing.outbox.receiver import Receiver, receiver
from tests.billing.taxes.test_tax_rule import BUYER, REVERSE, SELLER
from tests.billing.taxes.test_taxation import DOMESTIC, used
from tests.billing.test_process import environment, ledger
from tests.redis_server import RedisServer

VAT_ID, REQUESTER = "ATU13585627", "DE136695976"
GUARDS = Guards(vat_days=30)
UNCHECKED = f"vat_id_unchecked: nobody has said within 30 days that {VAT_ID} is in use"
INVALID = f"vat_id_invalid: {VAT_ID} is not in use"


def check(at_us: int, *, is_valid: bool = True) -> VatCheck:
    of = {"vat_id": VAT_ID, "requester": REQUESTER, "consultation": "WAPI1"}
    return VatCheck(**of, is_valid=is_valid, checked_us=at_us)


@given(
    st.none() | st.builds(check, st.integers(0, 80 * DAY_US), is_valid=st.booleans()),
    st.integers(1, 60),
    st.integers(0, 80 * DAY_US),
)
def test_only_a_fresh_yes_is_no_doubt(last: VatCheck | None, days: int, since_us: int) -> None:
    now_us = 80 * DAY_US
    found = doubts([REVERSE], VAT_ID, last, now_us, days)
    is_fresh = last is not None and now_us - last.checked_us <= days * DAY_US
    assert (found == ()) is (is_fresh and last is not None and last.is_valid)
    if found:
        assert found[0].because.startswith("vat_id_invalid" if is_fresh else "vat_id_unchecked")
        assert is_due(last, now_us + DAY_US, days), "whoever is parked is asked about again"
    assert doubts([DOMESTIC], VAT_ID, last, now_us, days) == (), "nobody relies on it"
    assert doubts([REVERSE], "GB123", last, now_us, days) == (), "VIES does not know it"


def answered(body: object, status: str = "200 OK") -> Callable[[], bytes]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(text)}\r\n\r\n".encode()
    return lambda: head + text


SAID = {"countryCode": "AT", "vatNumber": "U13585627", "valid": True, "requestIdentifier": "WAPI1"}
CHUNKS = (json.dumps(SAID)[:9], json.dumps(SAID)[9:], "")
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"".join(
    f"{len(chunk):x}\r\n{chunk}\r\n".encode() for chunk in CHUNKS
)


def vies(one: Receiver, timeout_s: float = 20.0) -> Vies:
    return Vies(one.url, timeout_s, ssl.create_default_context())


async def test_vies_is_asked_by_the_seller_and_answers() -> None:
    async with receiver() as one:
        for answer, wanted in (
            (answered(SAID), VatAnswer(True, "WAPI1")),
            (lambda: CHUNKED, VatAnswer(True, "WAPI1")),
            (answered(SAID | {"valid": False, "userError": "INVALID"}), VatAnswer(False, "WAPI1")),
            (answered({"valid": True, "requestIdentifier": None}), VatAnswer(True)),
        ):
            one.answer = answer
            assert await vies(one)(VAT_ID, REQUESTER) == wanted
        assert json.loads(one.received[0].body) == {
            **{"countryCode": "AT", "vatNumber": "U13585627"},
            **{"requesterMemberStateCode": "DE", "requesterNumber": "136695976"},
        }
        await vies(one)(VAT_ID, "")
        assert set(json.loads(one.received[-1].body)) == {"countryCode", "vatNumber"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (answered(b"<html>busy</html>"), "no JSON"),
        (answered(b"[1]"), "no object"),
        (answered({"errorWrappers": [{"error": "MS_UNAVAILABLE"}]}), "MS_UNAVAILABLE"),
        (answered({"valid": False, "userError": "SERVICE_UNAVAILABLE"}), "SERVICE_UNAVAILABLE"),
        (answered(SAID, "500 Internal Server Error"), "status 500"),
        (answered({"valid": "yes"}), "status 200"),
        (answered(SAID | {"vatNumber": "U1"}), "another VAT id"),
        (answered(SAID | {"requestIdentifier": "1" * 65}), "consultation number"),
        (answered(b"1" * (ANSWER_BYTES_MAX + 1)), "more than"),
        (lambda: b"SSH-2.0\r\n", "Http"),
        (lambda: b"", "hung up"),
    ],
)
async def test_what_is_no_clear_answer_is_none(answer: Callable[[], bytes], words: str) -> None:
    async with receiver() as one:
        one.answer = answer
        with pytest.raises(NoVatAnswer, match=words):
            await vies(one)(VAT_ID, REQUESTER)


async def test_silence_ends_in_time_and_so_does_nobody() -> None:
    async with receiver() as one:
        one.answer = lambda: None
        with pytest.raises(NoVatAnswer, match="no answer within"):
            await vies(one, 0.05)(VAT_ID, REQUESTER)
    with pytest.raises(NoVatAnswer):
        await vies(one)(VAT_ID, REQUESTER)


@pytest.fixture
def store(either_store: Store) -> Store:
    parties.put_seller(either_store, SELLER, 1)
    parties.put_profile(either_store, replace(BUYER, org="org_1"), 1)
    parties.put_rule(either_store, REVERSE, 1)
    used(either_store, "req_1", IN_OCTOBER_US)
    caught_up(either_store, IN_NOVEMBER_US)
    return either_store


def run(store: Store, now_us: int = IN_NOVEMBER_US, guards: Guards = GUARDS) -> InvoiceResult:
    (result,) = run_invoices(store, "2026-10", now_us=now_us, series="SLU", guards=guards)
    return result


def keeper(store: Store, one: Receiver, now_us: int) -> VatKeeper:
    settings = TaxSettings(vat_lookup="vies", vat_lookup_retry_s=60)
    return VatKeeper(store, vies(one), settings, now=lambda: now_us / 1e6)


def test_invoice_waits_for_the_answer_and_freezes_it(store: Store) -> None:
    assert run(store).parked_because == (UNCHECKED,)
    issued = asyncio.run(issued_once_answered(store))
    assert issued.number
    assert issued.invoice["vat_check"] == {
        **{"vat_id": VAT_ID, "requester": REQUESTER, "is_valid": True, "consultation": "WAPI1"},
        "checked_us": IN_NOVEMBER_US,
    }
    assert run(store) == issued, "a later answer changes nothing"
    assert holds(store)


async def issued_once_answered(store: Store) -> InvoiceResult:
    async with receiver() as one:
        one.answer = answered({"errorWrappers": [{"error": "MS_UNAVAILABLE"}]}, "500 Busy")
        asking = keeper(store, one, IN_NOVEMBER_US)
        assert (await asking.turn(), await asking.turn(), len(one.received)) == (0, 0, 1)
        assert run(store).parked_because == (UNCHECKED,)
        one.answer = answered(SAID)
        assert await keeper(store, one, IN_NOVEMBER_US).turn() == 1
        assert await keeper(store, one, IN_NOVEMBER_US + 14 * DAY_US).turn() == 0, "it is kept"
        (listed,) = list_invoices(store, now_us=IN_NOVEMBER_US, guards=GUARDS)
        assert not listed.parked_because
        at_us = IN_NOVEMBER_US + 31 * DAY_US
        (late,) = list_invoices(store, now_us=at_us, guards=GUARDS)
        assert late.parked_because == (UNCHECKED,), "the answer is too old"
        issued = run(store)
        one.answer = answered(SAID | {"valid": False})
        assert await keeper(store, one, IN_NOVEMBER_US + 15 * DAY_US).turn() == 1
    return issued


async def test_ledger_process_asks_vies_as_the_settings_say(
    redis_server: RedisServer, sqlite_store: Store, tmp_path: Path
) -> None:
    parties.put_seller(sqlite_store, SELLER, 1)
    parties.put_profile(sqlite_store, replace(BUYER, org="org_1"), 1)
    async with receiver() as one:
        one.answer = answered(SAID)
        settings = {"SLUICE_TAX__VAT_LOOKUP": "vies", "SLUICE_TAX__VAT_LOOKUP_URL": one.url}
        with ledger(environment(redis_server, sqlite_store, tmp_path) | settings):
            await eventually(lambda: kept(sqlite_store) is not None, 60.0)
    answer = kept(sqlite_store)
    assert answer is not None and answer.is_valid and answer.consultation == "WAPI1"
    assert len(one.received) == 1, "it is asked once"


def kept(store: Store) -> VatCheck | None:
    with store.read() as conn:
        return vat_store.last(conn, VAT_ID)


def test_approval_clears_a_doubt_but_no_later_one(store: Store) -> None:
    parked = run(store)
    invoice_id = parked.invoice["invoice_id"]
    words = {"by": "a", "now_us": IN_NOVEMBER_US, "guards": GUARDS}
    assert life.approve(store, invoice_id, **words).parked_because == ()
    vat_store.keep(store, check(IN_NOVEMBER_US + 1, is_valid=False))
    assert run(store, IN_NOVEMBER_US + 2).parked_because == (INVALID,)
    issued = life.issue(store, invoice_id, series="SLU", **(words | {"now_us": IN_NOVEMBER_US + 3}))
    assert issued.number and issued.invoice["vat_check"]["is_valid"] is False
    assert holds(store)


def test_nothing_is_asked_unless_it_is_said(store: Store) -> None:
    assert can_be_looked_up(VAT_ID) and TaxSettings().vat_lookup == "off"
    issued = run(store, guards=Guards())
    assert issued.number and issued.invoice["vat_check"] is None
