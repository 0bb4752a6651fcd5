"""A second of silence, for whoever asks whether a server listens at all."""

import hashlib
import io
import wave
from collections.abc import Iterator
from functools import cached_property

HERTZ = 16_000
SAMPLE_BYTES = 2


class Silence:
    @cached_property
    def _content(self) -> bytes:
        file = io.BytesIO()
        with wave.open(file, "wb") as sound:
            sound.setnchannels(1)
            sound.setsampwidth(SAMPLE_BYTES)
            sound.setframerate(HERTZ)
            sound.writeframes(bytes(SAMPLE_BYTES * HERTZ))
        return file.getvalue()

    @property
    def size(self) -> int:
        return len(self._content)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self._content).hexdigest()

    def pieces(self) -> Iterator[bytes]:
        yield self._content
