"""Where an external pool may send what: neither any variable nor to any address."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog.external import ExternalRules, address_of, refused, refused_connection
from gateway.config_file import SettingsError
from gateway.settings import load_settings
from gateway.upstream import fake
from gateway.upstream.http1.client import Http1Client
from gateway.upstream.http1.errors import ConnectFailed

KEY = "SLUICE_PROVIDER_KEY_A"
RULES = ExternalRules(key_variables=("THEIR_KEY",), http_hosts=("vllm.lan",))
METADATA = "169.254.169.254"
HIDDEN = (
    METADATA,
    "2852039166",
    "0xA9FEA9FE",
    "0xa9.0xfe.0xa9.0xfe",
    "0251.0376.0251.0376",
    "169.254.43518",
    "169.254.169.254.",
    "[::ffff:169.254.169.254]",
    "[::ffff:a9fe:a9fe]",
    "[::a9fe:a9fe]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::1]",
    "[fe80::1]",
    "[fe80::1%25eth0]",
    "[fd00:ec2::254]",
    "100.100.100.200",
)


def wrong(url: str | None, variable: str | None = None) -> list[str]:
    return [key for key, _ in RULES.mistakes(url, variable)]


@pytest.mark.parametrize("host", HIDDEN)
def test_address_of_the_cloud_is_refused_in_every_form(host: str) -> None:
    for scheme in ("http", "https"):
        assert wrong(f"{scheme}://{host}/v1") == ["base_url"]
        assert wrong(f"{scheme}://{host}:8080/v1") == ["base_url"]


@given(st.integers(0, 2**16 - 1), st.sampled_from(["{}", "0x{:x}", "0{:o}"]))
def test_link_local_address_is_refused_however_it_is_written(low: int, form: str) -> None:
    number = int(IPv4Address("169.254.0.0")) + low
    found = address_of(form.format(number))
    assert found == IPv4Address(number) and refused(found)
    assert refused(IPv6Address(f"::ffff:{IPv4Address(number)}"))


@given(st.integers(0, 2**32 - 1).map(IPv4Address))
def test_no_other_address_is_refused(address: IPv4Address) -> None:
    expected = address.is_link_local or str(address) in {
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
    }
    assert bool(refused(address)) == expected


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1",
        "http://127.0.0.1:8000/v1",
        "http://localhost:8000/v1",
        "http://vllm.localhost/v1",
        "http://[::1]:8000/v1",
        "http://vllm.lan:8000/v1",
    ],
)
def test_key_goes_by_tls_or_stays_on_this_machine_or_goes_where_it_is_allowed(url: str) -> None:
    assert wrong(url, KEY) == []


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com/v1",
        "http://10.0.0.5:8000/v1",
        "http://localhost.example.com/v1",
        "http://0.0.0.0/v1",
    ],
)
def test_key_is_not_sent_in_the_clear(url: str) -> None:
    assert wrong(url, KEY) == ["base_url"]
    assert wrong(url) == [], "without a key there is nothing to read"


@pytest.mark.parametrize(
    "url",
    ["https://me:pass@x/v1", "https://me@x/v1", "https://@x/v1", "https://x\\@y/v1", "https://[x"],
)
def test_url_with_a_user_or_of_no_server_is_refused(url: str) -> None:
    assert wrong(url) == ["base_url"]


@pytest.mark.parametrize(
    ("variable", "is_allowed"),
    [
        (KEY, True),
        ("THEIR_KEY", True),
        ("SLUICE_SQL_URL", False),
        ("SLUICE_ADMIN_KEY", False),
        ("HOME", False),
        ("SLUICE_PROVIDER_KEY_", False),
        ("sk-proj-abc", False),
        ("SLUICE_PROVIDER_KEY_A B", False),
    ],
)
def test_only_variables_of_keys_are_sent(variable: str, is_allowed: bool) -> None:
    assert wrong("https://x/v1", variable) == ([] if is_allowed else ["api_key_env"])


POOL = """
[[models]]
name = "m"
context_tokens = 8
max_output_tokens = 8
size_rank = 1
quality = 1
[[pools]]
name = "p"
model = "m"
capacity_class = "external"
upstream_model = "x"
"""


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        (
            'base_url = "https://x/v1"\napi_key_env = "SLUICE_SQL_URL"',
            "pools.0.api_key_env: SLUICE_SQL_URL may not be sent",
        ),
        ('base_url = "https://a:b@x/v1"', "pools.0.base_url: has a user or password in it"),
        (f'base_url = "http://{METADATA}/v1"', f"pools.0.base_url: {METADATA} is an address"),
    ],
)
def test_settings_are_refused_with_the_key(tmp_path: Path, more: str, complaint: str) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(POOL + more)
    with pytest.raises(SettingsError) as raised:
        load_settings(config)
    assert str(raised.value).startswith(f"{config}: {complaint}")


def test_settings_may_allow_more(tmp_path: Path) -> None:
    allowed = '[gateway]\nprovider_key_variables = ["K"]\nprovider_http_hosts = ["vllm.lan"]\n'
    config = tmp_path / "mine.toml"
    config.write_text(allowed + POOL + 'base_url = "http://vllm.lan/v1"\napi_key_env = "K"')
    assert load_settings(config).pools[0].api_key_env == "K"


class Names:
    """A resolver that says what a test wants."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    async def __call__(self, host: str, port: int, **_: Any) -> list[Any]:
        stream = socket.SOCK_STREAM
        return [(0, stream, 0, "", (address, port)) for address in self._addresses]


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("innocent.example", ("169.254.169.254",)),
        ("innocent.example", ("127.0.0.1", "169.254.169.254")),
        ("innocent.example", ("::ffff:169.254.169.254",)),
        ("localhost", ("203.0.113.7",)),
    ],
)
async def test_name_that_leads_to_a_refused_address_is_not_connected_to(
    monkeypatch: pytest.MonkeyPatch, host: str, addresses: tuple[str, ...]
) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", Names(*addresses))
    client = Http1Client(connect_timeout_s=5.0, idle_timeout_s=1.0)
    try:
        with pytest.raises(ConnectFailed, match=r"no pool may use|not this machine"):
            await client.post(f"http://{host}:9/v1", {}, b"{}")
    finally:
        await client.aclose()


async def test_name_is_connected_to_at_the_address_that_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the first of several does not take the connection."""
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", Names("127.0.0.2", "127.0.0.1"))
    client = Http1Client(connect_timeout_s=5.0, idle_timeout_s=1.0)
    async with fake.FakeUpstream(lambda _: fake.refusal(418, {})) as server:
        url = server.address.replace("127.0.0.1", "their.example")
        response = await client.post(f"{url}/x", {}, b"{}")
        assert response.status == 418
        await client.aclose()


async def test_url_with_a_password_is_not_connected_to() -> None:
    client = Http1Client(connect_timeout_s=5.0, idle_timeout_s=1.0)
    with pytest.raises(ConnectFailed, match="user or password"):
        await client.post("http://me:secret@127.0.0.1:9/v1", {}, b"{}")
    await client.aclose()


def test_address_of_ours_is_no_concern() -> None:
    for own in ("127.0.0.1", "10.1.2.3", "::1", "fd12::1"):
        assert refused_connection("worker", ip_address(own)) is None
