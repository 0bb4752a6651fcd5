"""How long an Ogg is: by the granules of its pages, which count the samples up to each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from gateway.audio.container import AudioFile, Flaw, FlawedAudio, Length

PAGE, HEAD_BYTES, SEGMENTS_MAX = b"OggS\0", 27, 255
CONTINUED, FIRST, LAST = 1, 2, 4
SEGMENT_FULL = 255
"""A packet goes on behind such a segment."""
CODEC_BYTES = 80
"""Of a first packet: more than any field that is read needs."""
OPUS_HERTZ, OPUS_HEADER = 48_000, b"Opus"
OPUS_SAMPLES = range(120, 5_761)
"""Of one packet."""
PACKETS_MAX = 200_000
"""Packets of Opus that are read. Those behind may have any length that there is."""
STREAMS_MAX = 1_000


class OggPage(NamedTuple):
    flags: int
    granule: int
    """Below 0: no packet ends here."""
    serial: int
    segments: bytes
    start: int
    """Of its packets."""

    @property
    def packets(self) -> int:
        """That end here."""
        return len(self.segments) - self.segments.count(SEGMENT_FULL)


@dataclass(slots=True)
class Stream:
    """Of sound, in samples."""

    hertz: int
    packet_most: int
    """What one packet has at most."""
    skipped: int = 0
    is_opus: bool = False
    granule: int = 0
    """Of its last page."""
    least: int = 0
    """What it has for sure: by any page, or by its packets."""
    most: int = 0
    is_whole: bool = False

    def seconds(self, samples: int) -> float:
        return max(0, samples - self.skipped) / self.hertz


Link = dict[int, Stream]
"""Streams that run at one time, by their serials. A file may have several, one behind another."""


def ogg_length(file: AudioFile) -> Length:
    """Raises FlawedAudio."""
    links = [link for link in _links(file) if link]
    if not links:
        raise FlawedAudio(Flaw.NO_AUDIO)
    if not all(stream.is_whole for stream in links[-1].values()):
        raise FlawedAudio(Flaw.CUT_OFF)
    return Length(
        sum(max(each.seconds(each.granule) for each in link.values()) for link in links),
        least=sum(max(each.seconds(each.least) for each in link.values()) for link in links),
        most=sum(max(each.seconds(each.most) for each in link.values()) for link in links),
    )


def _links(file: AudioFile) -> list[Link]:
    links: list[Link] = [{}]
    has_begun, packets_left, streams = False, PACKETS_MAX, 0
    for page in _pages(file):
        if not page.flags & FIRST:
            has_begun = True
        elif has_begun:
            links.append({})
            has_begun = False
        if page.flags & FIRST:
            stream = _stream_of(file.read(page.start, CODEC_BYTES).ljust(CODEC_BYTES, b"\0"))
            if stream is not None:
                links[-1][page.serial] = stream
            streams += 1
            if streams > STREAMS_MAX:
                raise FlawedAudio(Flaw.NO_AUDIO)
        if page.serial in links[-1]:
            packets_left -= page.packets
            _add(file, page, links[-1][page.serial], is_read=packets_left >= 0)
    return links


def _pages(file: AudioFile) -> Iterator[OggPage]:
    """Ends at whatever is no page. Raises FlawedAudio where the last one is not whole."""
    start = 0
    while (head := file.read(start, HEAD_BYTES + SEGMENTS_MAX))[: len(PAGE)] == PAGE:
        inner = HEAD_BYTES + (head[26] if len(head) >= HEAD_BYTES else SEGMENTS_MAX)
        segments = head[HEAD_BYTES:inner]
        if start + inner + sum(segments) > file.size:
            raise FlawedAudio(Flaw.CUT_OFF)
        granule = int.from_bytes(head[6:14], "little", signed=True)
        yield OggPage(head[5], granule, _number(head, 14), segments, start + inner)
        start += inner + sum(segments)


def _stream_of(head: bytes) -> Stream | None:
    """By its first packet; None of what is no sound."""
    stream = None
    if head.startswith(b"OpusHead"):
        skipped = int.from_bytes(head[10:12], "little")
        stream = Stream(OPUS_HERTZ, OPUS_SAMPLES[-1], skipped, is_opus=True)
    elif head.startswith(b"\x01vorbis"):
        stream = Stream(_number(head, 12), (1 << (head[28] >> 4)) // 2)
    elif head.startswith(b"\x7fFLAC"):
        hertz = int.from_bytes(head[27:30], "big") >> 4
        stream = Stream(hertz, int.from_bytes(head[19:21], "big"))
    elif head.startswith(b"Speex   "):
        stream = Stream(_number(head, 36), _number(head, 56) * _number(head, 64))
    if stream is not None and not stream.hertz:
        raise FlawedAudio(Flaw.NO_AUDIO)
    return stream


def _add(file: AudioFile, page: OggPage, stream: Stream, *, is_read: bool) -> None:
    least, most = 0, page.packets * stream.packet_most
    if stream.is_opus and not page.flags & FIRST:
        least = page.packets * OPUS_SAMPLES[0]
        if is_read:
            least = most = _opus_samples(file, page)
    if page.granule >= 0:
        stream.granule = page.granule
    stream.least = max(stream.least + least, stream.granule)
    stream.most += most
    stream.is_whole = bool(page.flags & LAST)


def _opus_samples(file: AudioFile, page: OggPage) -> int:
    """Of the packets that start on a page."""
    content = file.read(page.start, sum(page.segments))
    samples, start, size, is_start = 0, 0, 0, not page.flags & CONTINUED
    for segment in (*page.segments, 0):
        size += segment
        if segment == SEGMENT_FULL:
            continue
        if is_start and size and content[start : start + 4] != OPUS_HEADER:
            samples += _packet_samples(content[start : start + 2])
        start, size, is_start = start + size, 0, True
    return samples


def _packet_samples(head: bytes) -> int:
    """By the first bytes of a packet of Opus (RFC 6716, 3.1)."""
    config, frames = head[0] >> 3, (1, 2, 2)[head[0] & 3] if head[0] & 3 < 3 else head[-1] & 63
    if config < 12:
        frame = (480, 960, 1920, 2880)[config & 3]
    elif config < 16:
        frame = (480, 960)[config & 1]
    else:
        frame = (120, 240, 480, 960)[config & 3]
    return min(frames * frame, OPUS_SAMPLES[-1])


def _number(head: bytes, start: int) -> int:
    return int.from_bytes(head[start : start + 4], "little")
