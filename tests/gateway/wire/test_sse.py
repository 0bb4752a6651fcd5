"""Server-sent events: however TCP cuts the bytes, the events are the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.sse import EVENT_BYTES_MAX, SseDecoder, comment, event

payloads = st.binary(min_size=1, max_size=40).filter(lambda p: not set(p) & set(b"\r\n"))


def decode(*pieces: bytes, trusts: bool = True) -> list[bytes]:
    decoder = SseDecoder()
    found = [event for piece in pieces for event in decoder.feed(piece)]
    assert decoder.is_too_large is not trusts
    return found


@given(st.lists(payloads), st.lists(st.integers(0, 400)), st.booleans())
def test_any_split_gives_the_events_that_were_sent(
    sent: list[bytes], places: list[int], crlf: bool
) -> None:
    data = b": comment\n\n" + b"".join(map(event, sent))
    data = data.replace(b"\n", b"\r\n") if crlf else data
    ends = [*sorted({min(p, len(data)) for p in places}), len(data)]
    pieces = [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    assert decode(*pieces) == sent


@given(st.binary(), st.integers(0, 50))
def test_any_bytes_in_two_pieces_are_as_good_as_in_one(data: bytes, place: int) -> None:
    assert decode(data[:place], data[place:]) == decode(data)


def test_lines_of_one_event_are_joined_and_other_fields_passed_over() -> None:
    assert decode(b"event: x\nid: 1\ndata: a\ndata:b\nretry: 5\n\n") == [b"a\nb"]


def test_comments_and_empty_events_are_nothing() -> None:
    assert decode(comment("waiting"), b"\n\n\n", b"event: ping\n\n") == []


def test_unfinished_event_is_not_handed_on() -> None:
    assert decode(b"data: whole\n\ndata: hal") == [b"whole"]


def test_one_line_beyond_the_bound_is_refused() -> None:
    too_large = b"data: " + b"x" * EVENT_BYTES_MAX
    assert decode(too_large, trusts=False) == []
    assert decode(b"data: a\n\n" + too_large + b"\n\ndata: b\n\n", trusts=False) == [b"a"]


def test_many_lines_beyond_the_bound_are_refused() -> None:
    lines = [b"data: " + b"x" * 65536 + b"\n"] * (EVENT_BYTES_MAX // 65536 + 1)
    assert decode(*lines, trusts=False) == []


def test_bound_is_of_each_event_and_not_of_all_of_them() -> None:
    large = b"data: " + b"x" * (EVENT_BYTES_MAX // 2) + b"\n\n"
    assert len(decode(large, large, large, large)) == 4
