"""How long a file is: never less than its bytes can hold, whatever it says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.audio.length import Audio, audio_of
from gateway.errors import ApiError
from gateway.uploads.folder import UploadFolder
from tests.gateway.uploads.forms import mp3, wav

Read = Callable[[bytes], Audio]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    folder = UploadFolder(tmp_path / "uploads", 1 << 30)
    folder.clear()

    def read_one(data: bytes) -> Audio:
        upload = folder.open("file", 1 << 30)
        upload.add(data)
        asyncio.run(upload.write(is_whole=True))
        return audio_of(upload)

    return read_one


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seconds=st.floats(0.01, 20), says=st.floats(0, 20), hertz=st.sampled_from([8000, 16000, 44100])
)
def test_a_wav_is_as_long_as_its_bytes(read: Read, seconds: float, says: float, hertz: int) -> None:
    data = wav(seconds, hertz, says=min(says, seconds))
    audio = read(data)
    assert seconds - 0.001 <= audio.seconds == audio.seconds_max <= seconds + 1.01


def test_a_wav_that_was_written_to_a_pipe_is_as_long_as_it_is(read: Read) -> None:
    data = wav(3.5)
    assert read(data[:40] + b"\xff\xff\xff\xff" + data[44:]).seconds == 4


def test_an_mp3_is_held_for_what_its_bytes_can_be(read: Read) -> None:
    audio = read(mp3(400))
    assert (audio.format.extension, audio.seconds) == ("mp3", 11)
    assert audio.seconds_max == 167


def mp4(*boxes: tuple[bytes, bytes]) -> bytes:
    return b"".join((len(data) + 8).to_bytes(4, "big") + name + data for name, data in boxes)


def moov(seconds: int) -> bytes:
    """The boxes that say how long sound is: 1000 units a second."""
    head = bytes(12) + (1000).to_bytes(4, "big") + (seconds * 1000).to_bytes(4, "big") + bytes(80)
    return mp4((b"mvhd", head))


FTYP = (b"ftyp", b"M4A \0\0\0\0M4A ")


def test_an_mp4_says_how_long_it_is_and_is_not_believed_below_its_bytes(read: Read) -> None:
    whole = mp4(FTYP, (b"moov", moov(5)), (b"mdat", bytes(20_000)))
    audio = read(whole)
    assert (audio.format.extension, audio.seconds, audio.seconds_max) == ("m4a", 5, 21)
    lies = mp4(FTYP, (b"moov", moov(1)), (b"mdat", bytes(9_000_000)))
    assert read(lies).seconds == 3
    assert read(lies).seconds_max > 9000


def test_a_webm_is_as_long_as_its_bytes_can_be(read: Read) -> None:
    audio = read(b"\x1a\x45\xdf\xa3" + bytes(75_000))
    assert (audio.seconds, audio.seconds_max) == (101, 101)


NO_AUDIO = {
    "a PNG that is called .wav": b"\x89PNG\r\n\x1a\n" + bytes(1000),
    "text": b"hello, this is a text and no sound at all",
    "a byte": b"\xff",
    "RIFF and no more": b"RIFF",
    "a picture in RIFF": b"RIFF\0\0\0\0WEBPVP8 " + bytes(100),
    "a WAV without sound": wav(0),
    "a WAV that ends in its head": wav(1)[:30],
    "a WAV of no rate": wav(1)[:24] + bytes(4) + wav(1)[28:],
    "an MP4 without sound": mp4(FTYP, (b"mdat", bytes(100))),
    "an MP4 of no boxes": b"\0\0\0\x04ftyp" + bytes(100),
    "a FLAC without sound": b"fLaC" + bytes(100),
    "an Ogg without sound": b"OggS" + bytes(100),
    "an mp3 without frames": b"ID3" + bytes(100),
    "a frame of AAC": b"\xff\xf1\x50\x80" + bytes(100),
}
CUT_OFF = {
    "a WAV": wav(10)[:8000],
    "an MP4": mp4(FTYP, (b"moov", moov(5)), (b"mdat", bytes(20_000)))[:-1],
    "an MP4 that is longer than it can be": mp4(FTYP, (b"moov", moov(500)), (b"mdat", bytes(9))),
    "an mp3 whose first frame counts more": (
        mp3(1)[:36] + b"Xing\0\0\0\x03" + (9000).to_bytes(4, "big") + (3_753_000).to_bytes(4, "big")
    ).ljust(417, b"\0")
    + mp3(400),
}


@pytest.mark.parametrize("data", [*NO_AUDIO.values(), *CUT_OFF.values()], ids=[*NO_AUDIO, *CUT_OFF])
def test_what_is_no_audio_or_cut_off_is_refused_by_its_field(read: Read, data: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        read(data)
    assert (refused.value.status, refused.value.param) == (400, "file")
    assert ("cut off" in refused.value.message) == (data in CUT_OFF.values())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    head=st.sampled_from(
        [b"RIFF\0\0\0\0WAVE", b"fLaC", b"OggS", b"ID3\x04", b"\xff\xfb\x90\0", b"\0\0\0\x18ftyp"]
    ),
    rest=st.binary(max_size=400),
)
def test_nonsense_is_audio_of_some_length_or_a_400(read: Read, head: bytes, rest: bytes) -> None:
    try:
        audio = read(head + rest)
    except ApiError as refused:
        assert (refused.status, refused.param) == (400, "file")
    else:
        assert 1 <= audio.seconds <= audio.seconds_max
