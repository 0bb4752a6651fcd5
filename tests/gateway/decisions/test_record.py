"""The codec of decision records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.decisions import batch
from billing.decisions.batch import DecisionBytes
from gateway.decisions.record import DecisionRecord, PartsDecoder, PartsEncoder, UnreadableRecord
from tests.gateway.decisions.records import any_record


@given(st.lists(any_record(), max_size=3))
def test_record_that_is_read_is_the_one_that_was_written(records: list[DecisionRecord]) -> None:
    encoder = PartsEncoder()
    body = batch.encode([encoder.encode(each) for each in records])
    decoder = PartsDecoder()
    assert [decoder.decode(each) for each in batch.decode(body)] == records


@given(any_record())
def test_same_record_gives_the_same_bytes(record: DecisionRecord) -> None:
    assert PartsEncoder().encode(record) == PartsEncoder().encode(record)


@pytest.mark.parametrize(
    "broken",
    [
        DecisionBytes("req_1", 0, b"", []),
        DecisionBytes("req_1", 0, b"\x90", [b"\x80"]),
    ],
)
def test_other_bytes_are_no_record(broken: DecisionBytes) -> None:
    with pytest.raises(UnreadableRecord, match="req_1"):
        PartsDecoder().decode(broken)
