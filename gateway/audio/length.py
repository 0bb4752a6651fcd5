"""How long a file of audio is: read from the file, and never less than its bytes can hold.

What a file says of itself is the word of whoever sent it. `seconds` is believed within what the
bytes can be at the fastest, and charged where a server says nothing; `seconds_max` is what they can
be at the slowest, and held. Of a file that does not say, both are that.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gateway.audio.container import TOLERANCE, Flaw, FlawedAudio, Length, is_short
from gateway.audio.flac import flac_length
from gateway.audio.mp4 import mp4_length
from gateway.audio.ogg import ogg_length
from gateway.audio.silence import Silence
from gateway.audio.wav import SLOWEST as WAV_SLOWEST
from gateway.audio.wav import wav_length
from gateway.audio.webm import webm_length
from gateway.errors import ApiError, bad_request
from gateway.uploads.folder import Upload
from gateway.uploads.sent_form import Content


class AudioFormat(NamedTuple):
    """What it is called, and the bytes of a second: of the slowest and the fastest there is."""

    extension: str
    media_type: str
    slowest: int
    fastest: int


WAV = AudioFormat("wav", "audio/wav", WAV_SLOWEST, 4_000_000)
"""Of samples that have no size; those that have one say how fast they are."""
MP3 = AudioFormat("mp3", "audio/mpeg", 1_000, 40_000)
OGG = AudioFormat("ogg", "audio/ogg", 750, 4_000_000)
FLAC = AudioFormat("flac", "audio/flac", 1_000, 4_000_000)
MP4 = AudioFormat("m4a", "audio/mp4", 1_000, 4_000_000)
WEBM = AudioFormat("webm", "audio/webm", 750, 4_000_000)
HEAD_BYTES = 12
SECONDS_MAX = 30_000
"""Of silence, which takes next to no bytes."""
SLOWEST = min(each.slowest for each in (WAV, MP3, OGG, FLAC, MP4, WEBM))


@dataclass(frozen=True, slots=True)
class Audio:
    """A file that is audio, as far as its own head says."""

    content: Content
    format: AudioFormat
    seconds: int
    seconds_max: int


def audio_of(upload: Upload) -> Audio:
    """Reads the file. Raises ApiError 400 naming its field for one that is no audio, is not all
    there, or says that it is shorter than it is."""
    kind = _format_of(upload.read(0, HEAD_BYTES).ljust(HEAD_BYTES, b"\0"))
    try:
        return _read(upload, kind)
    except FlawedAudio as wrong:
        raise _refusal(upload.field, wrong.flaw) from wrong


def _read(upload: Upload, kind: AudioFormat | None) -> Audio:
    if kind is None:
        raise FlawedAudio(Flaw.NO_AUDIO)
    length = LENGTHS[kind](upload)
    longest = upload.size / kind.slowest
    said = _believed(length, longest)
    if length.is_exact:
        return Audio(upload, kind, math.ceil(said), math.ceil(said))
    seconds = max(said, upload.size / kind.fastest)
    return Audio(upload, kind, math.ceil(seconds), math.ceil(max(said, longest)))


def _believed(length: Length, longest: float) -> float:
    if length.said is None:
        return max(longest, min(length.least, SECONDS_MAX))
    if is_short(length.said, length.least):
        raise FlawedAudio(Flaw.TOO_SHORT)
    if not 0 < length.said < math.inf:
        raise FlawedAudio(Flaw.NO_AUDIO)
    if length.said > max(longest, min(length.most, SECONDS_MAX)) + 1 and not length.is_exact:
        raise FlawedAudio(Flaw.CUT_OFF)
    return length.said


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


def _mp3_length(upload: Upload) -> Length:
    from tinytag import TinyTag, TinyTagException

    try:
        tag = TinyTag.get(file_obj=upload.as_file(), tags=False)
    except (TinyTagException, ValueError, OverflowError) as wrong:
        raise FlawedAudio(Flaw.NO_AUDIO) from wrong
    seconds = tag.duration or 0.0
    if upload.size < (tag.bitrate or 0) * 125 * seconds * TOLERANCE:
        raise FlawedAudio(Flaw.CUT_OFF)
    return Length(seconds)


LENGTHS: Mapping[AudioFormat, Callable[[Upload], Length]] = {
    WAV: wav_length,
    MP3: _mp3_length,
    OGG: ogg_length,
    FLAC: flac_length,
    MP4: mp4_length,
    WEBM: webm_length,
}
FORMATS = "flac, m4a, mp3, mp4, mpeg, mpga, ogg, wav, webm"
REASONS = {
    Flaw.NO_AUDIO: f"this is no audio in one of these formats: {FORMATS}. What is in the file"
    " counts, not its name.",
    Flaw.CUT_OFF: "the file is cut off: it says that there is more of it.",
    Flaw.TOO_SHORT: "the file says that it is shorter than it is.",
}


def _refusal(field: str, flaw: Flaw) -> ApiError:
    message = f"Invalid '{field}': {REASONS[flaw]}"
    return bad_request(message, field, "invalid_file_format")
