"""What a WebM says of its length, whatever its recorder knew of its sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.container import FlawedAudio
from gateway.audio.webm import ELEMENTS_MAX, webm_length
from tests.gateway.audio.containers import Bytes, element, webm

NAMES = (0x18538067, 0x1549A966, 0x2AD7B1, 0x4489, 0x1F43B675, 0xE7, 0xA3, 0xA0, 0xA1, 0xEC)
elements = st.lists(
    st.one_of(
        st.binary(max_size=20),
        st.builds(
            element,
            st.sampled_from(NAMES),
            st.binary(max_size=12),
            sized=st.sampled_from([True, False]),
        ),
    )
)


@settings(max_examples=100)
@given(parts=elements)
def test_whatever_is_in_it_it_is_refused_or_has_a_length(parts: list[bytes]) -> None:
    try:
        length = webm_length(Bytes(b"\x1a\x45\xdf\xa3\x80" + b"".join(parts)))
    except FlawedAudio:
        return
    assert length.least >= 0


@settings(max_examples=20)
@given(
    duration=st.none() | st.floats(1, 10**6),
    times=st.lists(st.integers(0, 10**6), min_size=1, max_size=5),
    sized=st.booleans(),
)
def test_it_is_read_whether_its_sizes_were_known_or_not(
    duration: float | None, times: list[int], *, sized: bool
) -> None:
    length = webm_length(Bytes(webm(duration, *times, sized=sized)))
    assert length.said == (None if duration is None else pytest.approx(duration))
    assert length.least == pytest.approx(max(times) - min(times))


def test_a_block_in_a_group_counts_from_its_cluster() -> None:
    group = element(0xA0, element(0xA1, b"\x81" + (2500).to_bytes(2, "big") + bytes(5)))
    cluster = element(0x1F43B675, element(0xE7, (4000).to_bytes(2, "big")) + group, sized=False)
    assert webm_length(Bytes(webm(None, 0, sized=False) + cluster)).least == pytest.approx(6.5)


def test_what_is_behind_many_elements_is_not_read() -> None:
    void = element(0xEC, b"")
    cluster = element(0x1F43B675, element(0xE7, (9000).to_bytes(2, "big")))
    file = webm(None, 0, sized=False)
    assert webm_length(Bytes(file + void * 9 + cluster)).least == pytest.approx(9)
    assert webm_length(Bytes(file + void * ELEMENTS_MAX + cluster)).least == 0
