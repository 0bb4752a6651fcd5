"""No cookie opens the console but one that this admin key signed and whose time has not passed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.console import session

KEYS = st.text(min_size=1, max_size=60)
NONCES = st.binary(min_size=session.NONCE_BYTES, max_size=session.NONCE_BYTES)
NOW_S = st.floats(min_value=0, max_value=4e9)


@given(KEYS, NONCES, NOW_S, st.floats(min_value=0, max_value=session.LIFETIME_S - 1))
def test_session_lasts_for_its_lifetime(key: str, nonce: bytes, now_s: float, age: float) -> None:
    cookie = session.issue(key, now_s=now_s, nonce=nonce)
    assert session.is_valid(key, cookie, now_s=now_s + age)
    assert not session.is_valid(key, cookie, now_s=now_s + session.LIFETIME_S)


@given(KEYS, KEYS, NONCES, NOW_S)
def test_session_of_another_key_never_passes(
    key: str, other: str, nonce: bytes, now_s: float
) -> None:
    cookie = session.issue(other, now_s=now_s, nonce=nonce)
    assert session.is_valid(key, cookie, now_s=now_s) == (key == other)


@given(NONCES, NOW_S, st.data())
def test_cookie_changed_in_any_character_never_passes(
    nonce: bytes, now_s: float, data: st.DataObject
) -> None:
    cookie = session.issue("admin", now_s=now_s, nonce=nonce)
    place = data.draw(st.integers(0, len(cookie) - 1))
    other = data.draw(st.characters(exclude_characters=cookie[place], max_codepoint=0x2FF))
    forged = cookie[:place] + other + cookie[place + 1 :]
    assert not session.is_valid("admin", forged, now_s=now_s)


@given(st.none() | st.text(max_size=200), NOW_S)
def test_made_up_cookie_never_passes(cookie: str | None, now_s: float) -> None:
    assert not session.is_valid("admin", cookie, now_s=now_s)


@given(NONCES, NOW_S, st.integers(1, 10**6))
def test_lifetime_cannot_be_prolonged(nonce: bytes, now_s: float, more_s: int) -> None:
    expires_s, rest = session.issue("admin", now_s=now_s, nonce=nonce).split(".", 1)
    longer = f"{int(expires_s) + more_s}.{rest}"
    assert not session.is_valid("admin", longer, now_s=now_s)


def test_cookie_does_not_contain_the_key() -> None:
    cookie = session.issue("0123456789abcdef", now_s=0, nonce=bytes(session.NONCE_BYTES))
    assert "0123456789abcdef" not in cookie
    assert b"0123456789abcdef".hex() not in cookie


def test_without_an_admin_key_nothing_passes() -> None:
    cookie = session.issue("", now_s=0, nonce=bytes(session.NONCE_BYTES))
    assert not session.is_valid("", cookie, now_s=0)
    assert not session.is_valid(None, cookie, now_s=0)
    assert not session.is_admin_key(None, "")
    assert not session.is_admin_key("", "")


@given(KEYS, KEYS)
def test_only_the_admin_key_is_the_admin_key(key: str, given_key: str) -> None:
    assert session.is_admin_key(key, key)
    assert session.is_admin_key(key, given_key) == (key == given_key)
