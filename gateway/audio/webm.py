"""How long a WebM is: what its head says, and when its last block starts.

Its elements are read in one pass, none inside another: what holds others is entered, and anything
else skipped. So sizes that a recorder did not know are no matter.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from gateway.audio.container import AudioFile, Flaw, FlawedAudio, Length

ELEMENTS_MAX = 100_000
"""What is behind these is not read: a length that it contradicts is believed."""


class Name(IntEnum):
    """Of an element."""

    SEGMENT = 0x18538067
    INFO = 0x1549A966
    SCALE = 0x2AD7B1
    DURATION = 0x4489
    CLUSTER = 0x1F43B675
    TIME = 0xE7
    SIMPLE_BLOCK = 0xA3
    GROUP = 0xA0
    BLOCK = 0xA1


ENTERED = frozenset({Name.SEGMENT, Name.INFO, Name.CLUSTER, Name.GROUP})
NANOSECONDS = 1_000_000_000
HEAD_BYTES = 12 + 10
"""Of an element, and of a block in it."""


class Element(NamedTuple):
    name: int
    start: int
    """Of what is in it."""
    size: int | None
    """None: it was not known when it was written."""
    head: bytes
    """The first of what is in it."""


@dataclass(slots=True)
class _Times:
    """In units of the scale."""

    scale_ns: int = 1_000_000
    duration: float | None = None
    cluster: int = 0
    first: int | None = None
    last: int = 0

    def add(self, time: int) -> None:
        self.first = time if self.first is None else min(self.first, time)
        self.last = max(self.last, time)


def webm_length(file: AudioFile) -> Length:
    """Raises FlawedAudio."""
    times, has_segment = _Times(), False
    for element in _elements(file):
        has_segment |= element.name == Name.SEGMENT
        _read(times, element)
    if not has_segment:
        raise FlawedAudio(Flaw.NO_AUDIO)
    unit_s = times.scale_ns / NANOSECONDS
    said = times.duration * unit_s if times.duration else None
    least = (times.last - (times.first or 0)) * unit_s
    return Length(said, least=least, most=times.last * unit_s)


def _elements(file: AudioFile) -> Iterator[Element]:
    """Raises FlawedAudio where one is not whole."""
    start = 0
    for _ in range(ELEMENTS_MAX):
        if start >= file.size:
            return
        element = _element_at(file, start)
        if element is None:
            return
        if element.size is not None and element.start + element.size > file.size:
            raise FlawedAudio(Flaw.CUT_OFF)
        yield element
        start = element.start
        if element.name not in ENTERED:
            if element.size is None:
                return
            start += element.size


def _element_at(file: AudioFile, start: int) -> Element | None:
    """None of what is no element."""
    head = file.read(start, HEAD_BYTES)
    id_width = _width(head[:1])
    size_width = _width(head[id_width : id_width + 1])
    inner = id_width + size_width
    if not 1 <= id_width <= 4 or not size_width or len(head) < inner:
        return None
    ones = (1 << 7 * size_width) - 1
    size = int.from_bytes(head[id_width:inner], "big") & ones
    name = int.from_bytes(head[:id_width], "big")
    return Element(name, start + inner, None if size == ones else size, head[inner:])


def _width(first: bytes) -> int:
    """Bytes of a number, by the first of them; 0 of none."""
    return 9 - first[0].bit_length() if first and first[0] else 0


def _read(times: _Times, element: Element) -> None:
    content = element.head[: element.size or 0]
    if not content:
        return
    match element.name:
        case Name.SCALE:
            times.scale_ns = int.from_bytes(content[:8], "big") or times.scale_ns
        case Name.DURATION:
            times.duration = _float(content)
        case Name.TIME:
            times.cluster = int.from_bytes(content[:8], "big")
            times.add(times.cluster)
        case Name.SIMPLE_BLOCK | Name.BLOCK:
            track = _width(content[:1])
            offset = content[track : track + 2]
            times.add(times.cluster + int.from_bytes(offset, "big", signed=True))


def _float(content: bytes) -> float | None:
    form = {4: ">f", 8: ">d"}.get(len(content))
    value: float | None = struct.unpack(form, content)[0] if form else None
    return value
