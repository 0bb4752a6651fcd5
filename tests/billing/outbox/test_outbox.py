"""The outbox on both databases: written with what it tells, and sent until it arrives."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import ssl
from collections.abc import Sequence
from hashlib import sha256

import pytest
from sqlalchemy.exc import IntegrityError

from billing.db.engine import Store
from billing.invoices.voids import void
from billing.outbox import keeper
from billing.outbox import store as rows
from billing.outbox.event import PAUSES_S, EventType, OutboxEvent, new_secret
from billing.outbox.keeper import AT_ONCE_PER_ENDPOINT, OutboxKeeper
from billing.outbox.mail.channel import MailChannel
from billing.outbox.sender import WebhookSender, resolved
from billing.payments.paying import pay
from billing.payments.payment import Receipt
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    book,
    call,
    caught_up,
    run,
)
from tests.billing.outbox.receiver import Receiver, receiver
from tests.billing.outbox.sending_process import killed_while_sending

LOOPBACK = ["127.0.0.0/8"]
SECRETS = [new_secret(bytes([each]) * 24) for each in range(2)]
START_S = 1_800_000_000.0
DAY_S = 86_400


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


class Office:
    """An outbox whose clock tests move."""

    def __init__(
        self,
        store: Store,
        networks: Sequence[str] = LOOPBACK,
        timeout_s: float = 20.0,
        mail: MailChannel | None = None,
        usage_interval_s: float = 0.0,
    ) -> None:
        self.now_s = START_S
        self.store = store
        tls = ssl.create_default_context()
        self.sender = WebhookSender(networks, timeout_s, resolve=resolved, tls=tls)
        self.keeper = OutboxKeeper(
            *(store, self.sender),
            interval_s=1.0,
            keep_days=90.0,
            usage_interval_s=usage_interval_s,
            now=lambda: self.now_s,
            mail=mail,
        )

    def listens(self, url: str, name: str = "wh_1", **more: object) -> None:
        row = {"endpoint_id": name, "url": url, "events": [], "org": "", "note": ""}
        row |= {"is_enabled": True, "secret": SECRETS[0], "previous_secret": ""}
        row |= {"previous_until_us": 0, "created_us": 1, "changed_us": 1} | more
        with self.store.write() as conn:
            rows.insert_endpoint(conn, row)

    def tell(self, name: str = "inv_1") -> str:
        event = OutboxEvent(EventType.INVOICE_ISSUED, "org_1", name, {"id": name}, self.now_us)
        with self.store.write() as conn:
            rows.tell(conn, event)
        return event.event_id

    def deliveries(self, endpoint: str = "wh_1") -> list[tuple[str, int]]:
        with self.store.read() as conn:
            return [(r["state"], r["tries"]) for r in rows.deliveries(conn, endpoint)]

    @property
    def now_us(self) -> int:
        return int(self.now_s * 1e6)


def events(store: Store) -> list[str]:
    with store.read() as conn:
        found = conn.execute(rows.EVENT.select().order_by(rows.EVENT.c.created_us))
        return sorted(row.type for row in found)


def test_life_of_an_invoice_is_told_in_the_transactions_of_its_steps(store: Store) -> None:
    Office(store).listens("https://example.com/", events=["invoice.paid", "invoice.voided"])
    book(store, call(store, "req_1", IN_OCTOBER_US, output=50_000_000))
    caught_up(store, IN_NOVEMBER_US)
    (issued,) = run(store, "2026-10")
    run(store, "2026-10")
    assert events(store) == ["invoice.issued"]
    invoice_id, total = issued.invoice["invoice_id"], issued.payable_cents
    for name, cents in (("a", total - 1), ("b", 1), ("b", 1)):
        receipt = Receipt("org_1", name, cents, 1, invoice_id=invoice_id)
        pay(store, receipt, by="a", now_us=IN_NOVEMBER_US)
    void(store, invoice_id, reason="a", by="a", now_us=IN_NOVEMBER_US)
    void(store, invoice_id, reason="a", by="a", now_us=IN_NOVEMBER_US)
    assert events(store) == [
        *("invoice.issued", "invoice.paid", "invoice.voided"),
        *("payment.received", "payment.received"),
    ]
    with store.read() as conn:
        told = [row["type"] for row in rows.deliveries(conn, "wh_1")]
    assert sorted(told) == ["invoice.paid", "invoice.voided"]


def test_a_long_backlog_of_one_endpoint_hides_no_other(store: Store) -> None:
    office = Office(store)
    office.listens("https://example.com/")
    for number in range(30):
        office.tell(f"inv_{number}")
    office.listens("https://example.org/", "wh_2")
    office.tell("inv_last")
    with store.read() as conn:
        due = rows.due(conn, office.now_us, 5, of_endpoint=4)
    assert [row["endpoint_id"] for row in due].count("wh_1") == 4
    assert [row["endpoint_id"] for row in due].count("wh_2") == 1


def test_what_was_rolled_back_is_not_told(store: Store) -> None:
    event = OutboxEvent(EventType.INVOICE_PAID, "org_1", "inv_1", {}, 1)
    with pytest.raises(ZeroDivisionError), store.write() as conn:
        rows.tell(conn, event)
        raise ZeroDivisionError
    assert events(store) == []


async def test_event_arrives_once_signed_and_by_both_secrets_while_one_is_rotated(
    store: Store,
) -> None:
    office = Office(store)
    async with receiver() as one:
        until_us = office.now_us + 1
        rotated = {"secret": SECRETS[1], "previous_secret": SECRETS[0]}
        office.listens(one.url, **rotated, previous_until_us=until_us)
        office.listens(one.url, "wh_2", org="org_2")
        office.listens(one.url, "wh_3", is_enabled=False)
        event_id = office.tell()
        assert (await office.keeper.turn(), await office.keeper.turn()) == (1, 0)
        (got,) = one.received
        assert got.id == event_id
        told = json.loads(got.body)
        assert (told["type"], told["data"]) == ("invoice.issued", {"id": "inv_1"})
        assert got.headers["webhook-signature"] == signatures(got.id, got.headers, got.body)
        assert office.deliveries() == [("delivered", 1)]
        assert office.deliveries("wh_2") == office.deliveries("wh_3") == []


def signatures(name: str, headers: dict[str, str], body: bytes) -> str:
    """By the published scheme, of both secrets."""
    signed = f"{name}.{headers['webhook-timestamp']}.".encode() + body
    keys = [base64.b64decode(secret.removeprefix("whsec_")) for secret in reversed(SECRETS)]
    made = [base64.b64encode(hmac.digest(key, signed, sha256)).decode() for key in keys]
    return " ".join(f"v1,{each}" for each in made)


async def test_receiver_that_fails_is_asked_for_three_days_and_again_when_replayed(
    sqlite_store: Store,
) -> None:
    office = Office(sqlite_store)
    async with receiver() as one:
        one.answer = lambda: b"HTTP/1.1 500 No\r\n\r\n"
        office.listens(one.url)
        event_id = office.tell()
        assert await office.keeper.turn() == 1
        for pause_s in PAUSES_S:
            office.now_s += pause_s - 1
            assert await office.keeper.turn() == 0
            office.now_s += 1
            assert await office.keeper.turn() == 1
        assert office.deliveries() == [("failed", len(PAUSES_S) + 1)]
        office.now_s += 10**7
        assert await office.keeper.turn() == 0
        one.answer = Receiver().answer
        with sqlite_store.write() as conn:
            assert rows.replay(conn, "wh_1", office.now_us, since_us=office.now_us) == 0
            assert rows.replay(conn, "wh_1", office.now_us, event_id=event_id) == 1
        assert await office.keeper.turn() == 1
        assert office.deliveries() == [("delivered", 1)]
        assert {got.id for got in one.received} == {event_id}
        with sqlite_store.read() as conn:
            (delivery,) = rows.deliveries(conn, "wh_1")
        assert [each["status"] for each in delivery["log"]] == [500] * 14 + [204]


async def test_what_is_over_is_removed_with_its_log_and_what_is_to_be_sent_stays(
    store: Store,
) -> None:
    office = Office(store)
    async with receiver() as one:
        office.listens(one.url)
        office.listens("http://127.0.0.1:9/", "wh_off")
        for number in range(3):
            office.tell(f"inv_{number}")
        office.listens("http://127.0.0.1:9/", "wh_late")
        with store.write() as conn:
            rows.change_endpoint(conn, "wh_off", is_enabled=False)
        assert await office.keeper.turn() == 3
        assert office.keeper.prune() == 0
        office.now_s += 89 * DAY_S
        office.tell("inv_new")
        assert await office.keeper.turn() > 0
        assert office.keeper.prune() == 0
        office.now_s += 2 * DAY_S
        with store.write() as conn:
            assert rows.prune(conn, office.now_us - 90 * DAY_S * 10**6, 2) == 2
        assert office.keeper.prune() == 1
        assert office.keeper.prune() == 0
        assert len(events(store)) == 4, "each has a delivery left"
        assert office.deliveries() == [("delivered", 1)]
        assert office.deliveries("wh_off") == [("pending", 0)] * 3, "it may be enabled again"
        assert office.deliveries("wh_late") == [("pending", 1)]
        with store.read() as conn:
            log = conn.execute(rows.TRY.select()).all()
        assert sorted(row.endpoint_id for row in log) == ["wh_1", "wh_late"]
        office.tell("inv_0")
        assert office.deliveries() == [("delivered", 1)], "nothing is told twice"


async def test_events_of_which_no_delivery_is_left_are_removed_once_they_are_old(
    store: Store,
) -> None:
    office = Office(store)
    for number in range(4):
        office.tell(f"inv_{number}")
    office.now_s += DAY_S
    async with receiver() as one:
        office.listens(one.url)
        replayed = office.tell("inv_replayed")
        office.tell("inv_told")
        assert await office.keeper.turn() == 2
        office.now_s += 89 * DAY_S + 60
        bound = office.now_us - 90 * DAY_S * 10**6
        with store.write() as conn:
            assert rows.replay(conn, "wh_1", office.now_us, event_id=replayed) == 1
            assert rows.prune_events(conn, bound, 3) == 3
        assert office.keeper.prune() == 1
        assert await office.keeper.turn() == 1, "it can be sent again within the bound"
        office.now_s += DAY_S
        assert office.keeper.prune() == 2
        with store.read() as conn:
            assert [row["event_id"] for row in rows.deliveries(conn, "wh_1")] == [replayed]
        assert len(events(store)) == 1
        with pytest.raises(IntegrityError, match="may not change"), store.write() as conn:
            conn.execute(rows.EVENT.update().values(org="org_2"))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 302 Found\r\nlocation: {url}\r\n\r\n", ""),
        (b"SSH-2.0-x\r\n", "does not answer in HTTP"),
        (b"x" * 100_000, "does not answer in HTTP"),
        (b"", "does not answer in HTTP"),
        (None, "no answer within 0.2 s"),
    ],
)
async def test_other_answers_are_noted_and_no_redirect_is_followed(
    sqlite_store: Store, answer: bytes | None, problem: str
) -> None:
    office = Office(sqlite_store, timeout_s=0.2 if answer is None else 20.0)
    async with receiver() as one, receiver() as other:
        sent = answer and answer.replace(b"{url}", other.url.encode())
        one.answer = lambda: sent
        office.listens(one.url)
        office.tell()
        await office.keeper.turn()
        assert office.deliveries() == [("pending", 1)]
        with sqlite_store.read() as conn:
            (log,) = rows.deliveries(conn, "wh_1")[0]["log"]
        assert problem in log["problem"] and (log["status"] == 302) == (problem == "")
        assert other.received == []


async def test_private_and_rebound_addresses_are_not_reached(sqlite_store: Store) -> None:
    asked: list[str] = []

    async def rebound(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["8.8.8.8"]

    async with receiver() as one:
        port = one.url.rpartition(":")[2].partition("/")[0]
        tls = ssl.create_default_context()
        sender = WebhookSender([], 20.0, resolve=rebound, tls=tls)
        for url in (one.url, f"https://127.0.0.1:{port}/", f"https://hook.example:{port}/"):
            sent = await sender.send(url, {}, b"{}")
            assert sent.problem == "its address is not public, or it is not https"
        assert (asked, one.received) == (["hook.example"], [])
        refused = await sender.send("https://a:b@c/", {}, b"")
        assert "no user" in refused.problem


async def test_a_receiver_that_hangs_delays_itself_alone_and_a_close_loses_nothing(
    store: Store,
) -> None:
    """It hangs longer than the test may take, and the other one gets more than one group."""
    office = Office(store, timeout_s=3600.0)
    async with receiver() as hanging, receiver() as quick, asyncio.timeout(60):
        hanging.answer = lambda: None
        office.listens(hanging.url, "wh_hangs")
        office.listens(quick.url, "wh_quick", events=["invoice.issued"])
        told = [office.tell(f"inv_{number}") for number in range(AT_ONCE_PER_ENDPOINT + 1)]
        running = asyncio.create_task(office.keeper.run())
        await hanging.got(AT_ONCE_PER_ENDPOINT)
        await quick.got(len(told))
        told.append(office.tell("inv_later"))
        await quick.got(len(told))
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        assert {got.id for got in quick.received} == {*told}
        assert len(hanging.received) == AT_ONCE_PER_ENDPOINT, "it is never given more"
        assert office.deliveries("wh_hangs") == [("pending", 0)] * len(told)
        hanging.answer = Receiver().answer
        next_office = Office(store)
        next_office.now_s += 2 * office.sender.timeout_s + 60
        while await next_office.keeper.turn():
            pass
        for name in ("wh_hangs", "wh_quick"):
            assert {state for state, _ in office.deliveries(name)} == {"delivered"}
        assert {got.id for got in hanging.received} == {*told}


async def test_however_many_receivers_hang_others_have_room(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "AT_ONCE", 2)
    monkeypatch.setattr(keeper, "SILENT_AT_ONCE", 1)
    office = Office(sqlite_store, timeout_s=3600.0)
    async with receiver() as hanging, receiver() as quick, asyncio.timeout(60):
        hanging.answer = lambda: b""
        for name in ("wh_1", "wh_2"):
            office.listens(hanging.url, name, events=["invoice.issued"])
        office.tell()
        assert await office.keeper.turn() == 2
        hanging.answer = lambda: None
        office.now_s += PAUSES_S[0]
        running = asyncio.create_task(office.keeper.run())
        await hanging.got(3)
        office.listens(quick.url, "wh_3")
        for number in range(3):
            office.tell(f"inv_new_{number}")
        await quick.got(3)
        running.cancel()
        await asyncio.wait([running])
        assert len(hanging.received) == 3, "the other one that hangs waits"


async def test_no_more_than_a_bound_are_on_their_way_at_once(
    sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "AT_ONCE", 2)
    office = Office(sqlite_store, timeout_s=0.3)
    async with receiver() as hanging, receiver() as quick, asyncio.timeout(60):
        hanging.answer = lambda: None
        names = ("wh_1", "wh_2")
        for name in names:
            office.listens(hanging.url, name)
        office.tell()
        running = asyncio.create_task(office.keeper.run())
        await hanging.got(2)
        office.listens(quick.url, "wh_3")
        office.tell("inv_2")
        await quick.got(1)
        tries = [tries for name in names for _, tries in office.deliveries(name)]
        assert any(tries), "it waited until one of them was over"
        running.cancel()
        await asyncio.wait([running])


async def test_killed_between_sending_and_noting_it_is_sent_again_under_its_id(
    sqlite_store: Store,
) -> None:
    office = Office(sqlite_store)
    async with receiver() as one:
        one.answer = lambda: None
        office.listens(one.url)
        event_id = office.tell()
        await killed_while_sending(sqlite_store, one.came, START_S)
        one.answer = Receiver().answer
        assert office.deliveries() == [("pending", 0)]
        assert await office.keeper.turn() == 0, "the other may still be at it"
        office.now_s += 2 * office.sender.timeout_s + 60
        assert await office.keeper.turn() == 1
        assert [got.id for got in one.received] == [event_id] * 2
        assert office.deliveries() == [("delivered", 1)]
