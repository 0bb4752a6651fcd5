"""How long a FLAC is by its head, which every FLAC starts with."""

from gateway.audio.container import ELEMENTS_MAX, AudioFile, Flaw, FlawedAudio, Length

STREAMINFO_BYTES = 34
LAST_BLOCK = 0x80
FRAME_BYTES = 10
"""Of the smallest frame: silence takes next to none."""


def flac_length(file: AudioFile) -> Length:
    """A frame is never larger than its samples as they are. A file that was written before its end
    was known does not say how long it is. Raises FlawedAudio."""
    head = file.read(4, 4 + STREAMINFO_BYTES)
    if len(head) < 4 + STREAMINFO_BYTES or head[0] & 0x7F or head[3] < STREAMINFO_BYTES:
        raise FlawedAudio(Flaw.NO_AUDIO)
    packed = int.from_bytes(head[14:22], "big")
    hertz, samples = packed >> 44, packed & (1 << 36) - 1
    channels, bits = (packed >> 41 & 7) + 1, (packed >> 36 & 31) + 1
    if not hertz:
        raise FlawedAudio(Flaw.NO_AUDIO)
    frames_bytes = file.size - _frames_start(file)
    if frames_bytes <= 0:
        raise FlawedAudio(Flaw.CUT_OFF)
    frame_samples = int.from_bytes(head[6:8], "big")
    return Length(
        samples / hertz if samples else None,
        least=frames_bytes * 8 / (channels * bits * hertz),
        most=frames_bytes / FRAME_BYTES * frame_samples / hertz,
    )


def _frames_start(file: AudioFile) -> int:
    start = 4
    for _ in range(ELEMENTS_MAX):
        head = file.read(start, 4)
        start += 4 + int.from_bytes(head[1:], "big")
        if len(head) < 4 or head[0] & LAST_BLOCK:
            return start
    raise FlawedAudio(Flaw.NO_AUDIO)
