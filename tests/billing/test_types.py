from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.limits import keys
from billing.types import (
    Usage,
    decode_checkpoint,
    decode_opened,
    decode_settled,
    encode,
    utc_month,
)
from tests.billing.calls import checkpoint, opened_call, settled_call


def test_payloads_survive_the_wire() -> None:
    call = opened_call()
    assert decode_opened(encode(call)) == call
    assert decode_checkpoint(encode(checkpoint())) == checkpoint()
    assert decode_settled(encode(settled_call(call))) == settled_call(call)


def test_an_unknown_version_is_an_error_and_a_new_field_is_not() -> None:
    fields = msgspec.json.decode(encode(checkpoint()))
    later = msgspec.json.encode({**fields, "added_later": 1})
    assert decode_checkpoint(later) == checkpoint()
    with pytest.raises(msgspec.ValidationError):
        decode_checkpoint(msgspec.json.encode({**fields, "v": 2}))


def test_token_classes_are_disjoint_and_add_up() -> None:
    usage = Usage(input=1, cached_input=2, output=4) + Usage(output=8)
    assert (usage.prompt, usage.total) == (3, 15)


@pytest.mark.parametrize(
    ("at_us", "month"),
    [(0, "197001"), (1_793_491_199_999_999, "202610"), (1_793_491_200_000_000, "202611")],
)
def test_a_month_begins_at_midnight_utc(at_us: int, month: str) -> None:
    assert utc_month(at_us) == month


def test_every_organization_has_one_of_64_tags() -> None:
    shards = {keys.shard_of(f"org_{number}") for number in range(2000)}
    assert shards == set(range(64))
    assert keys.epoch_key(7) == "{s07}:epoch"
    assert keys.call_key(63, "req_1") == f"{{s63}}:{keys.LAYOUT}:call:req_1"


COUNTS = st.integers(0, 50)
USAGES = st.builds(
    Usage, input=COUNTS, cached_input=COUNTS, output=COUNTS, cache_write=COUNTS, reasoning=COUNTS
)


@given(USAGES, st.integers(0, 200), st.integers(0, 150))
def test_usage_within_bounds_is_as_much_of_each_as_there_is_room_for(
    used: Usage, prompt: int, completion: int
) -> None:
    """No class grows, and nothing is cut that has room: what was cached and seen last of all."""
    kept = used.within(prompt, completion)
    assert kept.prompt == min(used.prompt, prompt)
    assert kept.completion == min(used.completion, completion)
    for name in ("input", "cached_input", "output", "cache_write", "reasoning"):
        assert 0 <= getattr(kept, name) <= getattr(used, name)
    assert kept.cached_input == min(used.cached_input, prompt)
    assert kept.output == min(used.output, completion)
    assert not kept.cache_write or kept.input == used.input
    assert kept.within(prompt, completion) is kept
