"""Names for new things: prefixed ids that sort by time, and secrets."""

import hashlib
from collections.abc import Callable
from random import Random

from routing.types import Clock

NewId = Callable[[str], str]


def id_maker(clock: Clock, rng: Random) -> NewId:
    """Ids like UUIDv7 (RFC 9562, 5.7): 48 bits of milliseconds, 80 bits of chance, in hex."""

    def new_id(prefix: str) -> str:
        return f"{prefix}_{round(clock() * 1000):012x}{rng.getrandbits(80):020x}"

    return new_id


def made_at_s(made_id: str) -> float | None:
    """When an id was made; None of a text that is no such id."""
    _, _, digits = made_id.partition("_")
    try:
        return int(digits[:12], 16) / 1000
    except ValueError:
        return None


def new_secret(entropy: Callable[[int], bytes]) -> str:
    """A key of 240 bits, as `sk-sluice-...`."""
    return f"sk-sluice-{entropy(30).hex()}"


def key_digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
