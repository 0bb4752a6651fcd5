"""Bodies of decision records: what is written is what is read, whatever is joined and thinned."""

from __future__ import annotations

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.decisions.batch import (
    SAMPLE_OF,
    DecisionBytes,
    UnreadableBatch,
    decode,
    encode,
    is_sampled,
    thinned,
)

PARTS = st.lists(st.sampled_from([b"", b"pool", b"state", b"a longer state"]), max_size=6)
RECORDS = st.lists(
    st.builds(
        DecisionBytes,
        rid=st.text(max_size=8),
        at_us=st.integers(0, 2**62),
        facts=st.binary(max_size=20),
        parts=PARTS,
    ),
    max_size=8,
)


@given(RECORDS)
def test_body_that_is_read_is_the_one_that_was_written(records: list[DecisionBytes]) -> None:
    assert decode(encode(records)) == records


@given(RECORDS, RECORDS)
def test_joining_and_thinning_change_no_record(
    first: list[DecisionBytes], second: list[DecisionBytes]
) -> None:
    joined = decode(encode([*decode(encode(first)), *second]))
    assert joined == [*first, *second]
    kept = decode(encode(thinned(joined)))
    assert kept == [each for each in joined if is_sampled(each.rid)]


def test_a_part_that_many_records_have_is_written_once() -> None:
    fleet = bytes(range(256)) * 8
    one, many = (
        encode([DecisionBytes(f"req_{n}", n, b"facts", [fleet]) for n in range(count)])
        for count in (1, 200)
    )
    assert len(many) < len(one) + 200 * 20


def test_one_record_in_a_hundred_is_sampled_and_the_same_one_each_time() -> None:
    rids = [f"req_{number:032x}" for number in range(20_000)]
    share = sum(map(is_sampled, rids)) / len(rids)
    assert 0.5 / SAMPLE_OF < share < 2 / SAMPLE_OF
    assert [is_sampled(rid) for rid in rids] == [is_sampled(rid) for rid in rids]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no body",
        zlib.compress(b"\xc1"),
        zlib.compress(msgspec.msgpack.encode([2, [], []])),
        zlib.compress(msgspec.msgpack.encode([1, [], [["rid", 1, b"", [0]]]])),
        zlib.compress(msgspec.msgpack.encode([1, [b"part"], [["rid", 1, b"", [-1]]]])),
    ],
)
def test_other_bytes_are_no_body(body: bytes) -> None:
    with pytest.raises(UnreadableBatch):
        decode(body)
