"""How long a file of audio is: read from the file, and never less than its bytes can hold.

What a file says of itself is the word of whoever sent it. `seconds` is believed within what the
bytes can be at the fastest, and charged where a server says nothing; `seconds_max` is what they can
be at the slowest, and held. Of WebM, which need not say it, both are that.
"""

import math
import wave
from dataclasses import dataclass
from typing import NamedTuple

from gateway.audio.silence import Silence
from gateway.errors import ApiError, bad_request
from gateway.uploads.folder import Upload
from gateway.uploads.sent_form import Content


class AudioFormat(NamedTuple):
    """What it is called, and the bytes of a second: of the slowest and the fastest there is."""

    extension: str
    media_type: str
    slowest: int
    fastest: int


WAV = AudioFormat("wav", "audio/wav", 1_000, 4_000_000)
"""Of one that is no PCM; PCM says how fast it is."""
MP3 = AudioFormat("mp3", "audio/mpeg", 1_000, 40_000)
OGG = AudioFormat("ogg", "audio/ogg", 750, 4_000_000)
FLAC = AudioFormat("flac", "audio/flac", 1_000, 4_000_000)
MP4 = AudioFormat("m4a", "audio/mp4", 1_000, 4_000_000)
WEBM = AudioFormat("webm", "audio/webm", 750, 4_000_000)
HEAD_BYTES = 12
HERTZ = range(1_000, 1_000_001)
ENDLESS_BYTES = 0x7FFF0000
"""What a WAV says of its data that was written before its end was known: this or more."""
BOXES_MAX = 10_000
SLOWEST = min(each.slowest for each in (WAV, MP3, OGG, FLAC, MP4, WEBM))
CUT_OFF = 0.9
"""A file with less of its bytes than this was cut off."""


@dataclass(frozen=True, slots=True)
class Audio:
    """A file that is audio, as far as its own head says."""

    content: Content
    format: AudioFormat
    seconds: int
    seconds_max: int


def audio_of(upload: Upload) -> Audio:
    """Reads the file. Raises ApiError 400 naming its field for one that is no audio, or is not all
    there."""
    kind = _format_of(upload.read(0, HEAD_BYTES).ljust(HEAD_BYTES, b"\0"))
    if kind is None:
        raise _no_audio(upload)
    pcm = _pcm_of(upload) if kind is WAV else None
    if pcm is not None:
        return Audio(upload, kind, math.ceil(pcm), math.ceil(pcm))
    longest = upload.size / kind.slowest
    said = longest if kind is WEBM else _said(upload, kind)
    if said > longest + 1:
        raise _cut_off(upload)
    seconds = max(said, upload.size / kind.fastest)
    return Audio(upload, kind, math.ceil(seconds), math.ceil(max(said, longest)))


def audio_like(seconds: float | None, size: int) -> Audio:
    """A file that nobody has seen: as long as is said, or as long as so many bytes can be at the
    slowest."""
    longest = size / SLOWEST
    said = longest if seconds is None else seconds
    seconds, seconds_max = (max(1, math.ceil(each)) for each in (said, max(said, longest)))
    return Audio(Silence(), WEBM, seconds, seconds_max)


def _format_of(head: bytes) -> AudioFormat | None:
    if head[:4] == b"RIFF":
        return WAV if head[8:12] == b"WAVE" else None
    if head[4:8] == b"ftyp":
        return MP4
    if head[:3] == b"ID3" or (head[:1] == b"\xff" and head[1] & 0xE6 == 0xE2):
        return MP3  # frames of layer III
    return {b"fLaC": FLAC, b"OggS": OGG, b"\x1a\x45\xdf\xa3": WEBM}.get(head[:4])


def _pcm_of(upload: Upload) -> float | None:
    """Seconds of a WAV; None of one that is no PCM. All behind its head is counted as sound."""
    file = upload.as_file()
    try:
        with wave.open(file) as sound:
            hertz, there = sound.getframerate(), upload.size - file.tell()
            frame_bytes: int = sound.getnchannels() * sound.getsampwidth()
            said = sound.getnframes() * frame_bytes
    except (wave.Error, EOFError, ZeroDivisionError, ValueError) as wrong:
        if "unknown format" in str(wrong):
            return None
        raise _no_audio(upload) from wrong
    if hertz not in HERTZ or not there:
        raise _no_audio(upload)
    if there < said * CUT_OFF and said < ENDLESS_BYTES:
        raise _cut_off(upload)
    seconds: float = there / (hertz * frame_bytes)
    return seconds


def _said(upload: Upload, kind: AudioFormat) -> float:
    """Seconds, by the head of the file."""
    from tinytag import TinyTag, TinyTagException

    if kind is MP4:
        _check_boxes(upload)
    try:
        tag = TinyTag.get(file_obj=upload.as_file(), tags=False)
    except (TinyTagException, ValueError, OverflowError) as wrong:
        raise _no_audio(upload) from wrong
    seconds = tag.duration or 0.0
    if not 0 < seconds < math.inf:
        raise _no_audio(upload)
    if kind is MP3 and upload.size < (tag.bitrate or 0) * 125 * seconds * CUT_OFF:
        raise _cut_off(upload)
    return seconds


def _check_boxes(upload: Upload) -> None:
    """Of an MP4: each says how long it is. Raises ApiError 400 where the last one is not whole."""
    start = 0
    for _ in range(BOXES_MAX):
        head = upload.read(start, 16)
        size = int.from_bytes(head[:4], "big")
        if size == 1:
            size = int.from_bytes(head[8:16], "big")
        if size == 0:  # to the end of the file
            return
        if size < 8:
            raise _no_audio(upload)
        start += size
        if start == upload.size:
            return
        if start > upload.size:
            raise _cut_off(upload)
    raise _no_audio(upload)


def _no_audio(upload: Upload) -> ApiError:
    message = (
        f"Invalid '{upload.field}': this is no audio in one of these formats: flac, m4a, mp3, mp4,"
        " mpeg, mpga, ogg, wav, webm. What is in the file counts, not its name."
    )
    return bad_request(message, upload.field, "invalid_file_format")


def _cut_off(upload: Upload) -> ApiError:
    message = f"Invalid '{upload.field}': the file is cut off: it says that there is more of it."
    return bad_request(message, upload.field, "invalid_file_format")
