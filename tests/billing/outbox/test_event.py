"""Signatures, pauses and addresses of webhooks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.outbox.addresses import BadUrl, allowed, target_of
from billing.outbox.event import EventType, OutboxEvent, next_try_us, signed_headers

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLwwx"
SIGNATURE = "v1,tF4hGebIumL3ctkv2T086bZT61HiBQKgwfxYt1/XANA="
"""What the package standardwebhooks 1.1.0 makes of the same."""
THREE_DAYS_US = 3 * 86_400 * 1_000_000


def test_signature_is_that_of_standard_webhooks() -> None:
    headers = signed_headers(
        [SECRET, SECRET],
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        b'{"test": 2432232314}',
        1_614_265_330_000_000,
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": f"{SIGNATURE} {SIGNATURE}",
    }


def test_pauses_grow_and_end_after_three_days() -> None:
    at_us = [0]
    for tries in itertools.count(1):
        next_us = next_try_us(tries, at_us[-1])
        if next_us is None:
            break
        at_us.append(next_us)
    pauses = [b - a for a, b in itertools.pairwise(at_us)]
    assert pauses == sorted(set(pauses))
    assert at_us[-1] == THREE_DAYS_US


@settings(max_examples=30)
@given(st.sampled_from(EventType), st.text(max_size=5), st.text(max_size=5), st.integers(0, 2**50))
def test_id_of_an_event_is_of_what_happened_and_not_of_when(
    kind: EventType, name: str, turn: str, at_us: int
) -> None:
    event = OutboxEvent(kind, "org_1", name, {"a": "\u202e<b>"}, at_us, turn)
    again = OutboxEvent(kind, "org_1", name, {}, at_us + 1, turn)
    assert event.event_id == again.event_id
    assert event.event_id != OutboxEvent(kind, "org_1", name + "x", {}, at_us, turn).event_id
    assert event.body.isascii()


PRIVATE = (
    *("127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "240.0.0.1"),
)


@pytest.mark.parametrize("address", PRIVATE)
def test_no_private_address_is_reached_unless_its_network_is_allowed(address: str) -> None:
    assert allowed([address], [], encrypted=True) is None
    assert allowed([address, "8.8.8.8"], [], encrypted=True) == "8.8.8.8"
    whole = ["0.0.0.0/0", "::/0"]
    assert allowed([address], whole, encrypted=False) == address


def test_a_public_address_is_reached_by_tls_alone() -> None:
    for address in ("8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808"):
        assert allowed([address], [], encrypted=True) == address
        assert allowed([address], [], encrypted=False) is None
    assert allowed([], [], encrypted=True) is None


@pytest.mark.parametrize(
    "url",
    [
        *("", "ftp://a/", "https://", "https://a:b@c/", "https://a b/", "https://\u00e4/"),
        *(
            "https://a/\r\nx: y",
            "https://a:99999/",
            "https://a:0x1/",
            "//a/",
            "https://" + "a" * 2000,
        ),
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(BadUrl):
        target_of(url)


def test_parts_of_a_url() -> None:
    assert target_of("https://Example.com?x=1#f") == ("https", "example.com", 443, "/?x=1")
    assert target_of("http://[::1]:81/a").authority == "[::1]:81"
