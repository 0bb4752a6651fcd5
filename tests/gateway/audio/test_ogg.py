"""How long an Ogg is by its pages, and by what is in them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audio.container import FlawedAudio
from gateway.audio.ogg import STREAMS_MAX, ogg_length
from tests.gateway.audio.containers import FIRST, LAST, Bytes, opus, page

HEADS = (b"OpusHead", b"\x01vorbis", b"\x7fFLAC", b"Speex   ", b"fishead", b"")
pages = st.builds(
    page,
    st.integers(0, 7),
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.lists(st.builds(bytes.__add__, st.sampled_from(HEADS), st.binary(max_size=80)), max_size=4),
    st.sampled_from([1, 2]),
)


@settings(max_examples=100)
@given(parts=st.lists(pages | st.binary(max_size=30), max_size=6))
def test_whatever_is_in_it_it_is_refused_or_has_a_length(parts: list[bytes]) -> None:
    try:
        length = ogg_length(Bytes(b"".join(parts)))
    except FlawedAudio:
        return
    assert length.said is not None
    assert 0 <= length.said <= length.least


@settings(max_examples=20)
@given(seconds=st.lists(st.integers(1, 30), min_size=1, max_size=3))
def test_files_one_behind_another_are_as_long_as_all(seconds: list[int]) -> None:
    """With one serial or more: whoever joins files need not change it."""
    data = b"".join(opus(each, serial=each % 2) for each in seconds)
    length = ogg_length(Bytes(data))
    assert length.said == pytest.approx(sum(seconds))
    assert length.said == pytest.approx(length.least)
    assert length.said == pytest.approx(length.most, abs=0.1 * len(seconds) + 0.2)


@settings(max_examples=20)
@given(data=st.data())
def test_it_is_cut_off_wherever_it_ends_early(data: st.DataObject) -> None:
    whole = opus(3)
    end = data.draw(st.integers(100, len(whole) - 1))
    with pytest.raises(FlawedAudio):
        ogg_length(Bytes(whole[:end]))


VORBIS = b"\x01vorbis" + struct.pack("<IBIiiiB", 0, 1, 44_100, 0, 0, 0, 0xB8) + b"\x01"
FLAC = b"\x7fFLAC\x01\0\0\x01fLaC\0\0\0\x22" + struct.pack(">HH", 4096, 4096) + bytes(6)
SPEEX = b"Speex   " + bytes(28) + struct.pack("<IIIIIIII", 16_000, 0, 0, 1, 0, 320, 0, 1)


@pytest.mark.parametrize(
    ("head", "hertz"),
    [
        (VORBIS, 44_100),
        (FLAC + (48_000 << 4).to_bytes(3, "big") + bytes(21), 48_000),
        (SPEEX, 16_000),
    ],
)
def test_every_codec_counts_in_its_own_samples(head: bytes, hertz: int) -> None:
    data = page(FIRST, 0, [head]) + page(0, 2 * hertz, [b"a"] * 50) + page(LAST, 3 * hertz, [b"a"])
    assert ogg_length(Bytes(data)).said == 3


def test_a_picture_that_runs_beside_it_does_not_count() -> None:
    picture = page(FIRST, 0, [b"\x80theora"], serial=8)
    assert ogg_length(Bytes(picture + opus(4))).said == 4


def test_a_file_of_too_many_streams_is_refused() -> None:
    assert ogg_length(Bytes(opus(1) * 9)).said == pytest.approx(9)
    with pytest.raises(FlawedAudio):
        ogg_length(Bytes(opus(1) * (STREAMS_MAX + 1)))
