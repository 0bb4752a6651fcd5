"""TLS to servers outside, over real sockets: who is trusted, and that others are told nothing."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway.config_file import SettingsError
from gateway.settings import load_settings
from gateway.upstream import fake
from gateway.upstream.http1.client import Http1Client, tls_context
from gateway.upstream.http1.errors import ConnectFailed, HttpError
from tests.gateway.edge import body, edge
from tests.gateway.upstream.authority import LONG_AGO, Authority, make_authority
from tests.redis_server import RedisServer

ANSWER = fake.stream(fake.plain_frame("Once"), fake.DONE)


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return make_authority(tmp_path / "ours")


@asynccontextmanager
async def client_of(ca_file: str, within_s: float = 5.0) -> AsyncIterator[Http1Client]:
    client = Http1Client(connect_timeout_s=within_s, idle_timeout_s=2.0, ca_file=ca_file)
    try:
        yield client
    finally:
        await client.aclose()


async def told(client: Http1Client, url: str) -> bytes:
    response = await client.post(f"{url}/v1", {"authorization": "Bearer secret"}, b"{}")
    parts = []
    while part := await response.read():
        parts.append(part)
    response.close()
    return b"".join(parts)


async def test_server_with_a_certificate_of_the_named_authority_is_spoken_to(
    ours: Authority,
) -> None:
    async with (
        fake.FakeUpstream(lambda _: ANSWER, ours.server()) as server,
        client_of(ours.file) as client,
    ):
        for _ in range(3):
            assert b"Once" in await told(client, server.address)
        assert client.busy_connections == 0
    assert [request.headers["authorization"] for request in server.requests] == [
        "Bearer secret"
    ] * 3


async def test_certificate_of_a_name_is_for_that_name(ours: Authority) -> None:
    async with (
        fake.FakeUpstream(lambda _: ANSWER, ours.server(host="localhost")) as server,
        client_of(ours.file) as client,
    ):
        assert b"Once" in await told(client, server.address.replace("127.0.0.1", "localhost"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("an authority nobody named", "certificate"),
        ("another host", "not valid for"),
        ("expired", "expired"),
        ("no TLS", "no connection in time"),
    ],
)
async def test_server_that_is_not_trusted_is_told_nothing(
    ours: Authority, tmp_path: Path, wrong: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """No key and no prompt leaves, and whoever runs the gateway is told why, not the caller."""
    tls: ssl.SSLContext | None = {
        "an authority nobody named": lambda: make_authority(tmp_path / "theirs").server(),
        "another host": lambda: ours.server(host="elsewhere.example"),
        "expired": lambda: ours.server(until=LONG_AGO + timedelta(days=1)),
        "no TLS": lambda: None,
    }[wrong]()
    async with (
        fake.FakeUpstream(lambda _: ANSWER, tls) as server,
        client_of(ours.file, 0.3 if tls is None else 5.0) as client,
    ):
        url = server.address.replace("http://", "https://")
        for _ in range(3):
            with pytest.raises(ConnectFailed) as refused:
                await told(client, url)
        assert words in str(refused.value).lower()
    assert not [request for request in server.requests if "authorization" in request.headers]
    assert len([line for line in caplog.messages if "no connection to" in line]) == 1


async def test_machine_s_own_authorities_are_trusted_beside_the_named_ones(
    ours: Authority,
) -> None:
    without = tls_context("").cert_store_stats()["x509_ca"]
    assert tls_context(ours.file).cert_store_stats()["x509_ca"] == without + 1
    async with (
        fake.FakeUpstream(lambda _: ANSWER, ours.server()) as server,
        client_of("") as client,
    ):
        with pytest.raises(ConnectFailed):
            await told(client, server.address)


async def test_answer_that_ends_without_a_word_is_cut_by_tls_too(ours: Authority) -> None:
    cut = fake.Script([fake.Send(b"data: half"), fake.Reset()])
    async with (
        fake.FakeUpstream(lambda _: cut, ours.server()) as server,
        client_of(ours.file) as client,
    ):
        with pytest.raises(HttpError):
            await told(client, server.address)


async def test_call_is_served_by_a_server_outside_by_tls(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, ours: Authority
) -> None:
    async with fake.FakeUpstream(lambda _: ANSWER, ours.server()) as outside:
        trusting = {"external_ca_file": ours.file}
        url = f"{outside.address}/v1"
        async with edge(redis_server, redis, tmp_path, gateway=trusting, outer=url) as one:
            await one.publish_fleet(others="none here")
            answered = await one.post(body())
            assert (answered.status, answered.headers["x-sluice-pool"]) == (200, "outside")
            await one.settled()


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_file_without_authorities_is_one_line_at_the_start(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    config = tmp_path / "sluice.toml"
    config.write_text(f'[gateway]\nexternal_ca_file = "{path}"\n')
    with pytest.raises(SettingsError) as refused:
        load_settings(config)
    assert "gateway.external_ca_file" in str(refused.value) and str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


async def test_server_that_asks_for_a_certificate_is_shown_the_named_one(
    ours: Authority, tmp_path: Path
) -> None:
    asking = ours.server()
    asking.verify_mode = ssl.CERT_REQUIRED
    asking.load_verify_locations(cafile=ours.file)
    shown = Path(ours.file).with_name("server.pem")  # one of the same authority
    async with fake.FakeUpstream(lambda _: ANSWER, asking) as server:
        client = Http1Client(
            connect_timeout_s=5.0,
            idle_timeout_s=2.0,
            ca_file=ours.file,
            certificate_file=str(shown),
        )
        assert b"Once" in await told(client, server.address)
        await client.aclose()
        async with client_of(ours.file) as nameless:
            with pytest.raises(HttpError):
                await told(nameless, server.address)
    assert len(server.requests) == 1


@pytest.mark.parametrize("key", ["external_certificate_file", "external_proxy"])
def test_certificate_or_proxy_that_is_none_is_refused_when_settings_are_read(
    tmp_path: Path, key: str
) -> None:
    config = tmp_path / "sluice.toml"
    config.write_text(f'[gateway]\n{key} = "ftp://nothing/here"\n')
    with pytest.raises(SettingsError, match=f"gateway.{key}"):
        load_settings(config)
