"""How long a WAV is: by its bytes, and by what its head says of them."""

from dataclasses import dataclass

from gateway.audio.container import (
    ELEMENTS_MAX,
    TOLERANCE,
    AudioFile,
    Flaw,
    FlawedAudio,
    Length,
    is_short,
)

HERTZ = range(1_000, 1_000_001)
ENDLESS_BYTES = 0x7FFF0000
"""What a WAV says of its data that was written before its end was known: this or more, or 0."""
ENDLESS_SAMPLES = 0xFFFFFFFF
SLOWEST = 1_000
"""Bytes a second of samples that have no size."""
FIRST_CHUNK, FORMAT_BYTES = 12, 40
PCM, FLOAT, A_LAW, MU_LAW, EXTENSIBLE = 1, 3, 6, 7, 0xFFFE
LINEAR = frozenset({PCM, FLOAT, A_LAW, MU_LAW})
"""Formats whose samples all have one size."""


@dataclass(frozen=True, slots=True)
class _Format:
    code: int
    channels: int
    hertz: int
    bytes_a_second: int
    frame_bytes: int
    bits: int

    @property
    def linear_rate(self) -> int:
        """Bytes a second, by the size of its samples."""
        width = 1 if self.code in (A_LAW, MU_LAW) else (self.bits + 7) // 8
        return self.hertz * self.channels * width

    @property
    def said_rate(self) -> int:
        """The same, by the fastest that its head says. 24 bits may lie in 32."""
        is_padded = self.bits == 24 and self.frame_bytes == 4 * self.channels
        frames_rate = self.hertz * self.frame_bytes
        said = max(self.bytes_a_second, frames_rate)
        return self.linear_rate if is_padded and said == frames_rate else said


@dataclass(frozen=True, slots=True)
class _Head:
    form: _Format
    samples: int
    """0: it does not say."""
    start: int
    """Of the data."""
    data_bytes: int


def wav_length(file: AudioFile) -> Length:
    """All behind its head is counted as sound. Raises FlawedAudio."""
    head = _head_of(file)
    form, there = head.form, file.size - head.start
    if form.hertz not in HERTZ or not form.channels or not there:
        raise FlawedAudio(Flaw.NO_AUDIO)
    is_exact = form.code in LINEAR
    rate = form.linear_rate if is_exact else form.bytes_a_second
    if is_exact and not rate:
        raise FlawedAudio(Flaw.NO_AUDIO)
    if is_exact and form.said_rate and is_short(there / form.said_rate, there / rate):
        raise FlawedAudio(Flaw.TOO_SHORT)
    if 0 < head.data_bytes < ENDLESS_BYTES:
        if there < head.data_bytes * TOLERANCE:
            raise FlawedAudio(Flaw.CUT_OFF)
        tags = _chunk_bytes(file, head.start + head.data_bytes)
        if is_short(head.data_bytes, there - tags, rate or SLOWEST):
            raise FlawedAudio(Flaw.TOO_SHORT)
    if head.samples and not is_exact:
        return Length(head.samples / form.hertz)
    return Length(there / rate if rate else None, is_exact=is_exact)


def _head_of(file: AudioFile) -> _Head:
    form, samples, start = None, 0, FIRST_CHUNK
    for _ in range(ELEMENTS_MAX):
        head = file.read(start, 8)
        name, size = head[:4], int.from_bytes(head[4:], "little")
        start += 8
        if len(head) < 8:
            break
        if name == b"data" and form is not None:
            return _Head(form, samples, start, size)
        if name == b"fmt ":
            form = _format_of(file.read(start, min(size, FORMAT_BYTES)))
        if name == b"fact":
            samples = int.from_bytes(file.read(start, 4), "little") % ENDLESS_SAMPLES
        start += size + size % 2
    raise FlawedAudio(Flaw.NO_AUDIO)


def _format_of(fmt: bytes) -> _Format:
    if len(fmt) < 16:
        raise FlawedAudio(Flaw.NO_AUDIO)
    fields = [
        int.from_bytes(fmt[start:end], "little")
        for start, end in ((0, 2), (2, 4), (4, 8), (8, 12), (12, 14), (14, 16), (24, 26))
    ]
    code = fields[6] if fields[0] == EXTENSIBLE else fields[0]
    return _Format(code, *fields[1:6])


def _chunk_bytes(file: AudioFile, start: int) -> int:
    """Of chunks behind the data: tags, and no sound."""
    first = start = start + start % 2
    for _ in range(ELEMENTS_MAX):
        head = file.read(start, 8)
        size = int.from_bytes(head[4:], "little")
        is_whole = len(head) == 8 and start + 8 + size <= file.size
        if not is_whole or head[:4] == b"data" or not head[:4].isascii() or not head[0]:
            break
        start += 8 + size + size % 2
    return min(start, file.size) - min(first, file.size)
