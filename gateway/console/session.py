"""Who has shown the admin key: a signed cookie that expires. Pure.

The cookie holds no secret: an instant and some entropy, signed with a key derived from the admin
key. It cannot be turned back into that key, and a new admin key ends every session. That somebody
signed out before its time is remembered elsewhere (`signed_out.py`).
"""

import hashlib
import hmac
import re

COOKIE = "sluice_console"
LIFETIME_S = 8 * 3600
NONCE_BYTES = 16

_PURPOSE = b"sluice console session v1"
_SHAPE = re.compile(r"([0-9]{1,12})\.([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII)


def issue(admin_key: str, *, now_s: float, nonce: bytes) -> str:
    """The cookie of a session that begins now and ends LIFETIME_S later."""
    stated = f"{int(now_s) + LIFETIME_S}.{nonce.hex()}"
    return f"{stated}.{_signature(admin_key, stated)}"


def is_valid(admin_key: str | None, cookie: str | None, *, now_s: float) -> bool:
    """Whether this key signed the cookie and its time has not passed."""
    match = _SHAPE.fullmatch(cookie or "")
    if not admin_key or match is None:
        return False
    expires_s, nonce, signature = match.groups()
    expected = _signature(admin_key, f"{expires_s}.{nonce}")
    return hmac.compare_digest(signature, expected) and now_s < int(expires_s)


def named(cookie: str) -> tuple[str, int] | None:
    """By what a session is known, and when it ends; None for what is no cookie of ours."""
    match = _SHAPE.fullmatch(cookie)
    return None if match is None else (match[2], int(match[1]))


def is_admin_key(admin_key: str | None, key_sent: str) -> bool:
    """Compared as digests, so that not even the length of the key shows in the time it takes."""
    if not admin_key:
        return False
    digests = [hashlib.sha256(key.encode()).digest() for key in (admin_key, key_sent)]
    return hmac.compare_digest(*digests)


def _signature(admin_key: str, stated: str) -> str:
    signing_key = hmac.digest(admin_key.encode(), _PURPOSE, "sha256")
    return hmac.digest(signing_key, stated.encode(), "sha256").hex()
