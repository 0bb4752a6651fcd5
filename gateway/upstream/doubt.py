"""A stream that a malformed event was left out of: what came behind it is held back until the end.

By then the server's counts may show that text is missing. If so, nothing behind the gap has been
sent, and the answer can go on from before it. Pure.
"""

from collections.abc import Iterable

from gateway.call.frame import Frame
from gateway.upstream.answer import Cut, Malformed

LEFT_OUT_MAX = 8
"""Malformed events of one answer. With more of them it is cut."""
HELD_BYTES_MAX = 1024 * 1024
"""Of events that are held back."""
TEXT_NAMES = (b"choices", b"delta", b"content", b"text")
"""An event with one of these words would have brought text."""


class Doubt:
    def __init__(self) -> None:
        self._held: list[Frame] = []
        self._bytes = 0
        self._left_out = 0
        self._had_text = False
        self._was_told = False

    def leave_out(self, payload: bytes, malformed: Malformed) -> None:
        """Raises `malformed` where too many were."""
        self._left_out += 1
        self._had_text |= any(name in payload for name in TEXT_NAMES)
        if self._left_out > LEFT_OUT_MAX:
            raise malformed

    def hold(self, frame: Frame, size: int) -> None:
        """Of so many bytes. Raises Cut where too many are held."""
        self._held.append(frame)
        self._was_told |= frame.says_something
        self._bytes += size
        if self._bytes > HELD_BYTES_MAX:
            raise Cut("too much came behind a malformed event")

    def was_told(self) -> bool:
        """Whether a token was held since the last time."""
        told, self._was_told = self._was_told, False
        return told

    def released(self, texts_before: int) -> list[Frame]:
        """What was held, at the end of the stream. `texts_before` is how many pieces of text came
        before. Raises Cut where the server's counts show that some are missing.

        Most servers count the token that ends an answer, which has no text. An event that would
        have brought text is missing itself, so that token cannot be what is not there.
        """
        held, self._held = self._held, []
        texts = texts_before + sum([frame.texts for frame in held])
        if not self._had_text:
            texts += _ends(held)
        usage = next((f.usage for f in reversed(held) if f.usage is not None), None)
        if usage is not None and texts < usage.output:
            raise Cut(f"{usage.output - texts} tokens are missing behind a malformed event")
        return held


def _ends(frames: Iterable[Frame]) -> int:
    return sum([c.finish_reason is not None for frame in frames for c in frame.choices])
