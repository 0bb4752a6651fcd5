"""Addresses of mail, and endpoints that are mailed instead of posted to.

Pure. `mailto:a@example.com` is one address. `mailto:` alone is the address in the billing profile
of the organization that an event is of.
"""

from __future__ import annotations

import re

from billing.outbox.addresses import BadUrl

SCHEME = "mailto:"
CHARS_MAX = 254
_LOCAL = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS = re.compile(rf"{_LOCAL}@{_LABEL}(?:\.{_LABEL})*")


def is_mailed(url: str) -> bool:
    return url.startswith(SCHEME)


def is_address(text: str) -> bool:
    """In ASCII, without quotes and without a name."""
    return len(text) <= CHARS_MAX and _ADDRESS.fullmatch(text) is not None


def address_of(url: str) -> str | None:
    """The address of `mailto:...`; None where it is that of the organization. Raises BadUrl."""
    address = url.removeprefix(SCHEME)
    if address and not is_address(address):
        raise BadUrl("it is mailto: and one address in ASCII, or mailto: alone")
    return address or None
