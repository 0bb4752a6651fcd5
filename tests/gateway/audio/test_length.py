"""How long a file is: never less than its bytes can hold, whatever it says of itself."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.audio.length import SECONDS_MAX, Audio, audio_of
from gateway.errors import ApiError
from gateway.uploads.folder import UploadFolder
from tests.gateway.audio.containers import opus, webm
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


TOO_SHORT = "Invalid 'file': the file says that it is shorter than it is."


def refused(read: Read, data: bytes) -> str:
    with pytest.raises(ApiError) as refusal:
        read(data)
    assert (refusal.value.status, refusal.value.param) == (400, "file")
    return refusal.value.message


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seconds=st.floats(0.01, 20), says=st.floats(0, 20), hertz=st.sampled_from([8000, 16000, 44100])
)
def test_a_wav_is_as_long_as_its_bytes_or_refused(
    read: Read, seconds: float, says: float, hertz: int
) -> None:
    data = wav(seconds, hertz, says=min(says, seconds))
    said = int.from_bytes(data[40:44], "little") / (2 * hertz)
    if 0 < said < 0.9 * seconds and seconds - said > 1.001:
        assert refused(read, data) == TOO_SHORT
    elif not said or said > 0.9 * seconds or seconds - said < 0.999:
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


def track(*, head_s: int, media_s: int, runs_s: int, edited: bool = False) -> tuple[bytes, bytes]:
    """A track of sound as its head, the head of its media and its samples say: 100 ticks a
    second."""
    head = (b"tkhd", bytes(20) + (head_s * 1000).to_bytes(4, "big") + bytes(60))
    edits = [(b"edts", mp4((b"elst", bytes(20))))] if edited else []
    ticks = (100).to_bytes(4, "big") + (media_s * 100).to_bytes(4, "big")
    runs = bytes(7) + b"\x01" + runs_s.to_bytes(4, "big") + (100).to_bytes(4, "big")
    samples = mp4((b"stbl", mp4((b"stts", runs))))
    media = mp4(
        (b"mdhd", bytes(12) + ticks + bytes(4)),
        (b"hdlr", bytes(8) + b"soun" + bytes(13)),
        (b"minf", samples),
    )
    return (b"trak", mp4(head, *edits, (b"mdia", media)))


def m4a(seconds: int, size: int = 20_000, **lengths: Any) -> bytes:
    """What the movie says, and its one track."""
    said: dict[str, Any] = dict.fromkeys(("head_s", "media_s", "runs_s"), seconds)
    sound = mp4(track(**(said | lengths)))
    return mp4(FTYP, (b"moov", moov(seconds) + sound), (b"mdat", bytes(size)))


def flac(seconds: float, size: int, *, hertz: int = 8000, block: int = 4096) -> bytes:
    """16 bits of one channel, in so many bytes of frames."""
    samples = int(seconds * hertz)
    packed = (hertz << 44 | 15 << 36 | samples).to_bytes(8, "big")
    info = 2 * block.to_bytes(2, "big") + bytes(6) + packed + bytes(16)
    return (
        b"fLaC\x00\0\0\x22" + info + b"\x81\0\0\x04" + bytes(4) + b"\xff\xf8".ljust(size, b"\x55")
    )


def chunk(name: bytes, size: int) -> bytes:
    return name + size.to_bytes(4, "little") + bytes(size + size % 2)


def adpcm(fact: int) -> bytes:
    """4 bits a sample, 8,000 a second: as ffmpeg writes it, no rate of bytes."""
    head = wav(1)[:20] + b"\x02" + wav(1)[21:28] + bytes(4) + wav(1)[32:36]
    return head + b"fact\x04\0\0\0" + fact.to_bytes(4, "little") + chunk(b"data", 40_000)


def at(data: bytes, start: int, field: int, size: int) -> bytes:
    """With another number in a head of a WAV."""
    return data[:start] + field.to_bytes(size, "little") + data[start + size :]


FTYP = (b"ftyp", b"M4A \0\0\0\0M4A ")


def test_an_mp4_says_how_long_it_is_and_is_not_believed_below_its_bytes(read: Read) -> None:
    whole = mp4(FTYP, (b"moov", moov(5)), (b"mdat", bytes(20_000)))
    audio = read(whole)
    assert (audio.format.extension, audio.seconds, audio.seconds_max) == ("m4a", 5, 21)
    lies = mp4(FTYP, (b"moov", moov(1)), (b"mdat", bytes(9_000_000)))
    assert read(lies).seconds == 3
    assert read(lies).seconds_max > 9000


def test_an_mp4_in_fragments_is_as_long_as_its_bytes(read: Read) -> None:
    audio = read(mp4(FTYP, (b"moov", moov(0)), (b"moof", bytes(8)), (b"mdat", bytes(20_000))))
    assert (audio.seconds, audio.seconds_max) == (21, 21)


HONEST = {
    "a WAV with tags behind its sound": (wav(1) + chunk(b"LIST", 70_001) + chunk(b"id3 ", 9), 6),
    "a WAV that does not say what a second has": (at(wav(2), 28, 0, 4), 2),
    "a WAV of fewer bytes a second than it has": (at(wav(5), 28, 8_000, 4), 5),
    "a WAV of 24 bits in 32": (at(at(at(wav(20), 34, 24, 2), 32, 4, 2), 28, 32_000, 4), 14),
    "a WAV of floats that was written to a pipe": (
        at(at(at(at(at(wav(2), 20, 3, 2), 34, 32, 2), 32, 4, 2), 28, 32_000, 4), 40, 0, 4),
        1,
    ),
    "a WAV of ADPCM that counts its samples": (adpcm(fact=80_000), 10),
    "a WAV of ADPCM that was written to a pipe": (adpcm(fact=0), 41),
    "an MP4 of which a part is played": (m4a(5, media_s=20, runs_s=20, edited=True), 5),
    "an MP4 that its encoder padded": (m4a(20, media_s=21, runs_s=21), 20),
    "an MP4 of silence": (m4a(60, 200), 60),
    "a FLAC": (flac(5, 40_000), 5),
    "a FLAC of silence": (flac(60, 1500), 60),
    "a FLAC that was written to a pipe": (flac(0, 40_000), 41),
    "a FLAC that does not get smaller": (flac(5, 84_000), 5),
}


@pytest.mark.parametrize(("data", "seconds"), HONEST.values(), ids=HONEST.keys())
def test_what_encoders_write_is_taken(read: Read, data: bytes, seconds: int) -> None:
    assert read(data).seconds == seconds


def test_a_webm_that_says_nothing_is_as_long_as_its_bytes_can_be(read: Read) -> None:
    audio = read(webm(None, 0, size=75_000))
    assert (audio.seconds, audio.seconds_max) == (101, 101)
    assert read(webm(None, 0, 400)).seconds == 400


def test_a_webm_says_how_long_it_is(read: Read) -> None:
    audio = read(webm(9.5, 0, 9, size=75_000))
    assert (audio.seconds, audio.seconds_max) == (10, 101)


def test_an_ogg_of_silence_is_as_long_as_its_packets(read: Read) -> None:
    audio = read(opus(60))
    assert (audio.seconds, audio.seconds_max) == (60, 60)


def test_nothing_is_longer_than_silence_may_be(read: Read) -> None:
    assert "cut off" in refused(read, webm(10.0**9, 10**9))
    assert read(webm(None, 0, 10**9)).seconds_max == SECONDS_MAX


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
    "a WebM without a segment": b"\x1a\x45\xdf\xa3\x80" + bytes(100),
    "a WebM of no number of seconds": webm(math.nan, 0),
    "a WebM of less than no seconds": webm(-5, 0),
    "a WebM without end": webm(math.inf, 0),
    "an mp3 without frames": b"ID3" + bytes(100),
    "a frame of AAC": b"\xff\xf1\x50\x80" + bytes(100),
}
CUT_OFF = {
    "a WAV": wav(10)[:8000],
    "an MP4": mp4(FTYP, (b"moov", moov(5)), (b"mdat", bytes(20_000)))[:-1],
    "an MP4 that is longer than it can be": mp4(FTYP, (b"moov", moov(500)), (b"mdat", bytes(9))),
    "an MP4 whose samples are more than its bytes": m4a(5000, 9),
    "an mp3 whose first frame counts more": (
        mp3(1)[:36] + b"Xing\0\0\0\x03" + (9000).to_bytes(4, "big") + (3_753_000).to_bytes(4, "big")
    ).ljust(417, b"\0")
    + mp3(400),
    "an Ogg": opus(10)[:-1],
    "an Ogg without its last page": opus(10, end=False),
    "an Ogg that is longer than its packets": opus(10, says=[600]),
    "a WebM": webm(9, 0, 9, size=1000)[:-1],
    "a WebM that is longer than it can be": webm(500, 0, 9),
    "a FLAC without a frame": flac(5, 0),
    "a FLAC that is longer than its frames can be": flac(6000, 1000),
}
TOO_SHORT_FILES = {
    "a WAV whose data says less": wav(10, says=1),
    "a WAV with more sound behind its tags": wav(10, says=1)[:16_044]
    + chunk(b"LIST", 4)
    + bytes(40_000),
    "a WAV with a second lot of sound": wav(1) + chunk(b"data", 40_000),
    "a WAV of more bytes a second": at(wav(10), 28, 160_000, 4),
    "a WAV of larger samples": at(at(wav(10), 28, 160_000, 4), 32, 20, 2),
    "an MP4 whose track is longer": m4a(1, head_s=10),
    "an MP4 whose media is longer": m4a(1, media_s=10),
    "an MP4 whose samples are longer": m4a(1, runs_s=10),
    "an MP4 that says nothing": m4a(0, runs_s=10),
    "an Ogg whose pages go back": opus(10, says=[10, 1]),
    "an Ogg whose packets are longer": opus(10, says=[1]),
    "a WebM whose blocks are later": webm(1, 0, 10),
    "a FLAC of more bytes than its samples": flac(1, 60_000),
}


@pytest.mark.parametrize("data", TOO_SHORT_FILES.values(), ids=TOO_SHORT_FILES.keys())
def test_what_says_that_it_is_shorter_than_it_is_is_refused(read: Read, data: bytes) -> None:
    assert refused(read, data) == TOO_SHORT


@pytest.mark.parametrize("data", [*NO_AUDIO.values(), *CUT_OFF.values()], ids=[*NO_AUDIO, *CUT_OFF])
def test_what_is_no_audio_or_cut_off_is_refused_by_its_field(read: Read, data: bytes) -> None:
    assert ("cut off" in refused(read, data)) == (data in CUT_OFF.values())


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    head=st.sampled_from(
        [
            b"RIFF\0\0\0\0WAVE",
            b"fLaC",
            b"OggS",
            b"\x1a\x45\xdf\xa3\x80",
            b"ID3\x04",
            b"\xff\xfb\x90\0",
            b"\0\0\0\x18ftyp",
        ]
    ),
    rest=st.binary(max_size=400),
)
def test_nonsense_is_audio_of_some_length_or_a_400(read: Read, head: bytes, rest: bytes) -> None:
    try:
        audio = read(head + rest)
    except ApiError as refusal:
        assert (refusal.status, refusal.param) == (400, "file")
    else:
        assert 1 <= audio.seconds <= audio.seconds_max
