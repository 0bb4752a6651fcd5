"""What is remembered of refused hints: for a time, of one pool, and never more than so much."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream import hints
from gateway.upstream.hints import HINTS, REFUSED_S, RefusedHints, refused_hints, without_hints
from tests.routing.fleets import pool

FIELDS = st.dictionaries(
    st.sampled_from([*HINTS, "model", "temperature"]), st.integers() | st.text(), max_size=6
)
OUTSIDE = pool(name="outside", base_url="http://127.0.0.1:9/v1", upstream_model="theirs")
MOVED = pool(name="outside", base_url="http://127.0.0.1:9/v1", upstream_model="newer")


@given(FIELDS)
def test_what_is_left_is_the_same_to_the_byte(fields: dict[str, object]) -> None:
    left, out = without_hints(msgspec.json.encode(fields))
    assert left == msgspec.json.encode({n: v for n, v in fields.items() if n not in HINTS})
    assert set(out) == set(HINTS) & set(fields)


@given(FIELDS, st.integers(0, 600), st.binary(max_size=60))
def test_only_what_was_sent_is_refused_and_no_words_are_a_crash(
    fields: dict[str, object], status: int, said: bytes
) -> None:
    sent = msgspec.json.encode(fields)
    found = refused_hints(status, {}, said, sent)
    assert set(found) <= set(HINTS) & set(fields)
    assert not found or status in (400, 422)


@given(st.lists(st.tuples(st.sampled_from(HINTS), st.integers(0, 3), st.floats(0, REFUSED_S))))
def test_pair_is_left_out_exactly_as_long_as_its_last_refusal_says(
    refusals: list[tuple[str, int, float]],
) -> None:
    now_s = 0.0
    last: dict[tuple[str, int], float] = {}
    memory = RefusedHints(lambda: now_s)
    for name, value, passed_s in refusals:
        now_s += passed_s
        memory.add(OUTSIDE, msgspec.json.encode({name: value}), [name])
        last[name, value] = now_s
        for hint in HINTS:
            for other in range(4):
                expected = now_s < last.get((hint, other), -REFUSED_S) + REFUSED_S
                assert memory.of(OUTSIDE, {hint: other}) == ((hint,) if expected else ())
    assert not any(memory.of(MOVED, {hint: 0}) for hint in HINTS), "another model is another server"


def test_memory_is_bounded_and_the_oldest_goes_first() -> None:
    memory = RefusedHints(lambda: 0.0)
    for number in range(hints.REFUSED_MAX + 1):
        memory.add(OUTSIDE, msgspec.json.encode({"thinking": {"n": number}}), ["thinking"])
    assert len(memory) == hints.REFUSED_MAX
    assert not memory.of(OUTSIDE, {"thinking": {"n": 0}})
    assert memory.of(OUTSIDE, {"thinking": {"n": hints.REFUSED_MAX}})
