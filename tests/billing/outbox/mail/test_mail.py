"""Mail of the outbox at a real SMTP server: with STARTTLS and a login, and at worse ones."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from billing.db.engine import Store
from billing.outbox import store as rows
from billing.outbox.event import PAUSES_S
from billing.outbox.mail.channel import MailChannel
from billing.outbox.mail.server import MailSecurity, MailServer
from billing.parties import store as parties
from tests.billing.outbox.test_outbox import Office
from tests.billing.taxes.test_tax_rule import BUYER, SELLER
from tests.gateway.upstream.authority import Authority, make_authority

SENDER = "Sluice Billing <billing@sluice.example>"
READER = "books@reed.example"
USER, PASSWORD = "sluice", "a secret: pass"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


@dataclass
class MailRoom:
    """Makes outboxes that mail to a port."""

    store: Store
    authority: Authority
    threads: ThreadPoolExecutor

    def office(self, port: int, **changed: Any) -> Office:
        trusting = ssl.create_default_context(cafile=self.authority.file)
        settings: dict[str, Any] = {
            **{"host": "127.0.0.1", "port": port, "security": MailSecurity.STARTTLS},
            **{"user": USER, "password": PASSWORD, "timeout_s": 20.0},
        }
        server = MailServer(**settings | changed, tls=trusting, threads=self.threads)
        return Office(self.store, mail=MailChannel(self.store, server, SENDER))

    def bill(self, **profile: Any) -> None:
        parties.put_seller(self.store, replace(SELLER, seller_id="s"), 1)
        changed = {"org": "org_1", "seller": "s", "email": READER} | profile
        parties.put_profile(self.store, replace(BUYER, **changed), 1)


@pytest.fixture
def room(sqlite_store: Store, authority: Authority) -> Iterator[MailRoom]:
    with ThreadPoolExecutor(2) as threads:
        yield MailRoom(sqlite_store, authority, threads)


@pytest.fixture
async def host(authority: Authority) -> AsyncIterator[Any]:
    from tests.billing.outbox.mail.mail_host import mail_host

    async with mail_host(authority.server()) as one:
        yield one


async def test_mail_arrives_once_encrypted_after_a_login_in_text_and_html(
    room: MailRoom, host: Any
) -> None:
    room.bill(language="de")
    office = room.office(host.port)
    office.listens("mailto:")
    office.listens("mailto:ops@sluice.example", "wh_2")
    event_id = office.tell()
    assert (await office.keeper.turn(), await office.keeper.turn()) == (2, 0)
    assert office.deliveries() == office.deliveries("wh_2") == [("delivered", 1)]
    assert host.was_encrypted == [True, True]
    assert sorted(to for _, (to,) in host.envelopes) == [READER, "ops@sluice.example"]
    (mail,) = (each for each in host.taken if each["to"] == READER)
    assert mail["message-id"] == f"<{event_id}.wh_1@sluice.example>"
    assert mail["from"] == SENDER
    assert mail["subject"].startswith("Rechnung")
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert SELLER.legal_name in text.get_content() and "<p>" in html.get_content()


@pytest.mark.parametrize("security", [MailSecurity.TLS, MailSecurity.NONE])
async def test_server_is_spoken_to_as_the_settings_say(
    room: MailRoom, authority: Authority, security: MailSecurity
) -> None:
    from tests.billing.outbox.mail.mail_host import mail_host

    encrypted = security is MailSecurity.TLS
    user = USER if encrypted else ""
    room.bill()
    async with mail_host(authority.server() if encrypted else None, implicit=encrypted) as host:
        office = room.office(host.port, security=security, user=user)
        office.listens("mailto:")
        office.tell()
        await office.keeper.turn()
    assert office.deliveries() == [("delivered", 1)]
    assert len(host.taken) == 1


async def test_refusing_server_is_asked_as_long_as_a_webhook_and_mail_arrives_when_it_relents(
    room: MailRoom, host: Any
) -> None:
    room.bill()
    host.welcomes = "451 later"
    office = room.office(host.port)
    office.listens("mailto:")
    event_id = office.tell()
    await office.keeper.turn()
    host.welcomes, host.answer = "250 welcome", "550 no such mail"
    office.now_s += PAUSES_S[0]
    await office.keeper.turn()
    host.answer = "250 taken"
    office.now_s += PAUSES_S[1]
    await office.keeper.turn()
    assert office.deliveries() == [("delivered", 3)]
    with room.store.read() as conn:
        (delivery,) = rows.deliveries(conn, "wh_1")
    assert [each["status"] for each in delivery["log"]] == [451, 550, 250]
    assert [each["problem"] for each in delivery["log"]] == ["later", "no such mail", ""]
    assert {each["message-id"] for each in host.taken} == {f"<{event_id}.wh_1@sluice.example>"}


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"password": "wrong"}, "Authentication"),
        ({"security": MailSecurity.NONE, "user": ""}, "STARTTLS"),
        ({"security": MailSecurity.TLS}, "SSLError"),
        ({"host": "localhost"}, "CERTIFICATE_VERIFY_FAILED"),
        ({"port": 1}, "ConnectionRefusedError"),
    ],
)
async def test_what_does_not_fit_the_server_is_noted_and_nothing_is_told(
    room: MailRoom, host: Any, changed: dict[str, Any], problem: str
) -> None:
    room.bill()
    office = room.office(**{"port": host.port} | changed)
    office.listens("mailto:")
    office.tell()
    await office.keeper.turn()
    assert office.deliveries() == [("pending", 1)]
    assert problem in noted(room.store)
    assert host.taken == []


async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def dripping(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Each byte comes in time, the line never."""
    while not writer.is_closing():
        writer.write(b"2")
        await writer.drain()
        await asyncio.sleep(0.02)


async def closing(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 hello\r\n")
    writer.close()


@pytest.mark.parametrize(
    ("serve", "timeout_s", "problem"),
    [
        (silent, 0.3, "no answer within 0.3 s"),
        (dripping, 0.3, "no answer within 0.3 s"),
        (closing, 20.0, "SMTPServerDisconnected"),
    ],
)
async def test_slow_and_closing_servers_are_left_in_time_with_their_threads(
    room: MailRoom, serve: Serve, timeout_s: float, problem: str
) -> None:
    room.bill()
    async with raw_server(serve) as port:
        office = room.office(port, timeout_s=timeout_s)
        office.listens("mailto:")
        office.tell()
        await office.keeper.turn()
        assert problem in noted(room.store)
        loop = asyncio.get_running_loop()
        free = [loop.run_in_executor(room.threads, lambda: None) for _ in range(2)]
        async with asyncio.timeout(60):
            await asyncio.gather(*free)
    assert office.deliveries() == [("pending", 1)]


async def test_without_a_server_or_an_address_the_log_says_so(room: MailRoom) -> None:
    office = Office(room.store)
    office.listens("mailto:")
    office.tell()
    await office.keeper.turn()
    assert noted(room.store) == "no mail server is set: host of [mail]"
    office = room.office(1)
    for email in ("", "a@b\r\nbcc: c@d", "A <a@b>", "a@b, c@d", "ä@b"):
        room.bill(email=email)
        office.now_s += max(PAUSES_S)
        await office.keeper.turn()
        assert noted(room.store) == "the organization's billing profile has no e-mail address"


def noted(store: Store) -> str:
    """The last problem."""
    with store.read() as conn:
        (delivery,) = rows.deliveries(conn, "wh_1")
    return str(delivery["log"][-1]["problem"])


@asynccontextmanager
async def raw_server(serve: Serve) -> AsyncIterator[int]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
