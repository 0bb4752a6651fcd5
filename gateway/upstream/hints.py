"""Hints that servers outside refuse: found in their words, and remembered for a time.

No call fails for a hint: one that is refused for it goes to the same server again without. What is
remembered is the value, not the field, so a value that one caller made up takes no hint from
others.
"""

import re
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from gateway.upstream.fault import Fault
from gateway.wire.bodies.conversation import CACHING
from gateway.wire.bodies.conversation import HINTS as STEERING
from routing.types import Clock, Pool

HINTS = (*STEERING, *CACHING)
REFUSALS = frozenset({400, 422})
REFUSED_S = 600.0
"""How long a server is not sent again what it refused; after that it may have learned."""
REFUSED_MAX = 1_000
MODEL = "model"
_OTHER_WORDS = {"reasoning_effort": r"|reasoning(?!_content)|thinking|effort"}
"""What servers say in place of the field."""
_NAMES = {
    name: re.compile(rf"(?<![a-z])(?:{name}{_OTHER_WORDS.get(name, '')})", re.IGNORECASE)
    for name in HINTS
}
_Refused = tuple[str, str | None, str | None, str, bytes]


def refused_hints(
    status: int, error: Mapping[str, Any], answer: bytes, request: bytes
) -> tuple[str, ...]:
    """Which hints of a request a server's answer names. `error` is its error object, or empty: one
    that is about another field of the request names none."""
    if status not in REFUSALS:
        return ()
    fields = _fields(request)
    hints = [name for name in HINTS if name in fields]
    param = error.get("param")
    field = re.split(r"[.\[]", param)[0] if isinstance(param, str) else ""
    if field in hints:
        return (field,)
    if field in fields and field != MODEL:
        return ()
    words = answer.decode("utf-8", "replace")
    return tuple(name for name in hints if _NAMES[name].search(words))


def without_hints(request: bytes) -> tuple[bytes, tuple[str, ...]]:
    """The same request otherwise, and what was left out."""
    fields = _fields(request)
    out = tuple(name for name in HINTS if fields.pop(name, None) is not None)
    return msgspec.json.encode(fields), out


def note_of(left_out: tuple[str, ...]) -> Fault | None:
    """What the record of an attempt says of hints that it was sent without."""
    if not left_out:
        return None
    return Fault(None, f"sent without {', '.join(left_out)}: the server refused a hint")


class RefusedHints:
    """What the servers of pools refused lately: bounded, the oldest is forgotten first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: dict[_Refused, float] = {}

    def __len__(self) -> int:
        return len(self._until_s)

    def of(self, pool: Pool, body: Mapping[str, Any]) -> tuple[str, ...]:
        """The hints of a body that this pool's server is not sent now."""
        if not self._until_s:
            return ()
        now_s = self._clock()
        hints = ((n, msgspec.json.encode(body[n])) for n in HINTS if n in body)
        return tuple(n for n, v in hints if self._until_s.get(_refused(pool, n, v), now_s) > now_s)

    def add(self, pool: Pool, request: bytes, names: Iterable[str]) -> None:
        """Of a request that was taken once it had none of these."""
        fields = _fields(request)
        for name in names:
            key = _refused(pool, name, bytes(fields[name]))
            self._until_s.pop(key, None)
            self._until_s[key] = self._clock() + REFUSED_S
        while len(self._until_s) > REFUSED_MAX:
            del self._until_s[next(iter(self._until_s))]


def _refused(pool: Pool, name: str, value: bytes) -> _Refused:
    digest = blake2b(value, digest_size=16).digest()
    return pool.name, pool.base_url, pool.upstream_model, name, digest


def _fields(request: bytes) -> dict[str, msgspec.Raw]:
    return msgspec.json.decode(request, type=dict[str, msgspec.Raw])
