"""Ogg and WebM, as small as readers of their lengths take them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

FIRST, LAST = 2, 4
A_PACKET = b"\x48"
"""Of Opus: 20 ms of silence."""
PACKETS_A_SECOND = 50
HERTZ = 48_000


@dataclass(frozen=True, slots=True)
class Bytes:
    """A file that is in memory. It counts what is read of it."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read(self, start: int, count: int) -> bytes:
        return self.data[start : start + count]


def page(flags: int, granule: int, packets: Sequence[bytes], serial: int = 7) -> bytes:
    """Of packets below 255 bytes."""
    head = struct.pack("<4sBBqIIIB", b"OggS", 0, flags, granule, serial, 0, 0, len(packets))
    return head + bytes(len(each) for each in packets) + b"".join(packets)


def opus(
    seconds: int, *, says: Sequence[int] = (), end: bool = True, serial: int = 7, hertz: int = HERTZ
) -> bytes:
    """A page a second. `says`: what the last pages say of the time up to them."""
    times = [*range(1, seconds + 1 - len(says)), *says] if says else [*range(1, seconds + 1)]
    head = b"OpusHead\x01\x01" + (312).to_bytes(2, "little") + bytes(7)
    sound = [
        page(
            LAST if end and index == seconds - 1 else 0,
            time * hertz + 312,
            [A_PACKET] * PACKETS_A_SECOND,
            serial,
        )
        for index, time in enumerate(times)
    ]
    return b"".join(
        [page(FIRST, 0, [head], serial), page(0, 0, [b"OpusTags" + bytes(8)], serial), *sound]
    )


def element(name: int, content: bytes, *, sized: bool = True) -> bytes:
    size = len(content).to_bytes(8, "big") if sized else b"\xff" * 8
    return name.to_bytes((name.bit_length() + 7) // 8, "big") + b"\x01" + size[1:] + content


def webm(duration: float | None, *times_s: int, size: int = 10, sized: bool = True) -> bytes:
    """A cluster of one block for each time. `sized`: clusters and their segment say how large they
    are."""
    info = element(0x2AD7B1, (1_000_000).to_bytes(3, "big"))
    if duration is not None:
        info += element(0x4489, struct.pack(">d", duration * 1000))
    clusters = [
        element(
            0x1F43B675,
            element(0xE7, (time * 1000).to_bytes(8, "big"))
            + element(0xA3, b"\x81\0\0\x80" + bytes(size // len(times_s))),
            sized=sized,
        )
        for time in times_s
    ]
    segment = element(0x1549A966, info) + b"".join(clusters)
    head = element(0x1A45DFA3, element(0x4282, b"webm"))
    return head + element(0x18538067, segment, sized=sized)
