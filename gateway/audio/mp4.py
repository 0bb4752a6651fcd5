"""How long an MP4 is: by its movie, unless a track of sound in it is longer."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gateway.audio.container import ELEMENTS_MAX, AudioFile, Flaw, FlawedAudio, Length

ENTERED = frozenset({b"trak", b"mdia", b"minf", b"stbl", b"edts"})
SAMPLE_S_MAX = 1.0
"""Of what is one sample here: codecs pack many into it."""
HEAD_BYTES = 40
"""Of a box: more than any field that is read needs."""


class Box(NamedTuple):
    name: bytes
    start: int
    """Of what is in it."""
    end: int


@dataclass(slots=True)
class Track:
    handler: bytes = b"soun"
    """What is in it: sound, if it does not say."""
    ticks: int = 0
    """By its own head, in units of the movie."""
    media_s: float = 0.0
    """By its media, whatever part of it is played."""
    hertz: int = 0
    samples: int = 0
    is_edited: bool = False
    """An edit list may play a part of the media."""


@dataclass(slots=True)
class Movie:
    hertz: int = 0
    ticks: int = 0


def mp4_length(file: AudioFile) -> Length:
    """One in fragments need not say how long it is. Raises FlawedAudio."""
    boxes = list(_outer_boxes(file))
    moov = next((box for box in boxes if box.name == b"moov"), None)
    if moov is None:
        raise FlawedAudio(Flaw.NO_AUDIO)
    movie, tracks = _movie_of(file, moov)
    if not movie.hertz:
        raise FlawedAudio(Flaw.NO_AUDIO)
    seconds = movie.ticks / movie.hertz
    if any(box.name == b"moof" for box in boxes):
        return Length(seconds or None)
    sound = [track for track in tracks if track.handler == b"soun"]
    lengths = [track.ticks / movie.hertz for track in sound]
    lengths += [track.media_s for track in sound if not track.is_edited]
    most = [min(track.media_s, track.samples * SAMPLE_S_MAX) for track in sound]
    return Length(seconds, max(lengths, default=0.0), max(most, default=0.0))


def _outer_boxes(file: AudioFile) -> Iterator[Box]:
    """Each says how long it is. Raises FlawedAudio where the last one is not whole."""
    start = 0
    for _ in range(ELEMENTS_MAX):
        box = _box_at(file, start, file.size)
        if box is None:
            raise FlawedAudio(Flaw.NO_AUDIO)
        yield box
        start = box.end
        if start == file.size:
            return
        if start > file.size:
            raise FlawedAudio(Flaw.CUT_OFF)
    raise FlawedAudio(Flaw.NO_AUDIO)


def _box_at(file: AudioFile, start: int, end: int) -> Box | None:
    head = file.read(start, 16)
    size, name, inner = int.from_bytes(head[:4], "big"), head[4:8], 8
    if size == 1:
        size, inner = int.from_bytes(head[8:16], "big"), 16
    if size == 0:
        size = end - start
    return Box(name, start + inner, start + size) if size >= inner else None


def _movie_of(file: AudioFile, moov: Box) -> tuple[Movie, list[Track]]:
    movie, tracks, start = Movie(), [Track()], moov.start
    for _ in range(ELEMENTS_MAX):
        box = _box_at(file, start, moov.end) if start + 8 <= moov.end else None
        if box is None:
            break
        if box.name == b"trak":
            tracks.append(Track())
        _read(file, box, movie, tracks[-1])
        start = box.start if box.name in ENTERED else box.end
    return movie, tracks


def _read(file: AudioFile, box: Box, movie: Movie, track: Track) -> None:
    head = file.read(box.start, HEAD_BYTES).ljust(HEAD_BYTES, b"\0")
    match box.name:
        case b"mvhd":
            movie.hertz, movie.ticks = _times(head)
        case b"tkhd":
            track.ticks = _ticks(head[28:36] if head[0] else head[20:24])
        case b"mdhd":
            track.hertz, ticks = _times(head)
            track.media_s = max(track.media_s, ticks / track.hertz if track.hertz else 0.0)
        case b"hdlr" if track.hertz:
            track.handler = head[8:12]
        case b"elst":
            track.is_edited = True
        case b"stts" if track.hertz:
            track.samples, ticks = _runs_of(file, box, int.from_bytes(head[4:8], "big"))
            track.media_s = max(track.media_s, ticks / track.hertz)


def _runs_of(file: AudioFile, box: Box, count: int) -> tuple[int, int]:
    """Samples and their ticks, in `count` runs of one length each. No sample has less than a
    byte."""
    size = 8 * min(count, ELEMENTS_MAX, (box.end - box.start) // 8)
    content = file.read(box.start + 8, size)
    runs = list(struct.iter_unpack(">II", content[: len(content) // 8 * 8]))
    samples = sum(samples for samples, _ in runs)
    return min(samples, file.size), sum(samples * ticks for samples, ticks in runs)


def _times(head: bytes) -> tuple[int, int]:
    """Ticks a second, and ticks; of a head in its older or its wider form."""
    at, wide = (20, 8) if head[0] else (12, 4)
    return int.from_bytes(head[at : at + 4], "big"), _ticks(head[at + 4 : at + 4 + wide])


def _ticks(field: bytes) -> int:
    """All ones: it is not known."""
    return 0 if field == b"\xff" * len(field) else int.from_bytes(field, "big")
