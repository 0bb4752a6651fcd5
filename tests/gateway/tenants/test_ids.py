"""Ids that sort by time, and secrets that are known by their digest."""

from __future__ import annotations

import re
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gateway.tenants.ids import id_maker, key_digest, new_secret

times = st.floats(1e9, 4e9)


@given(times, times, st.integers())
def test_ids_sort_by_the_millisecond_they_were_made_in(a: float, b: float, seed: int) -> None:
    rng = Random(seed)
    earlier, later = sorted((a, b))
    first = id_maker(lambda: earlier, rng)("req")
    second = id_maker(lambda: later, rng)("req")
    assert re.fullmatch(r"req_[0-9a-f]{32}", first)
    assert first[:16] <= second[:16]


def test_ids_of_one_millisecond_differ() -> None:
    new_id = id_maker(lambda: 1.79e9, Random(1))
    assert len({new_id("req") for _ in range(1000)}) == 1000


def test_secret_has_240_bits_and_is_named_as_ours() -> None:
    assert re.fullmatch(r"sk-sluice-[0-9a-f]{60}", new_secret(Random(1).randbytes))


def test_digests_tell_secrets_apart() -> None:
    assert key_digest("a") == key_digest("a") != key_digest("b")
    assert len(key_digest("a")) == 32
