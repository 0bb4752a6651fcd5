"""Token ids to text, as they come. Guards two laws: the pieces joined are the decoding of the whole
(up to a last, unfinished character), and no piece holds half a character."""

from __future__ import annotations

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"
# A character has at most four bytes, so up to three replacement signs may still become one.
UNFINISHED_MAX = 3
# Bytes that never make a character would let the window grow for ever.
WINDOW_MAX = 64
# So that a window of settled and new tokens is well below that.
PUSH_MAX = 16


class Detokenizer:
    """Decodes a sliding window: the last settled tokens, for context, and the new ones after
    them."""

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._settled = 0  # tokens of the window whose text is out
        self._emitted = 0  # characters of the window's text that are out

    def push(self, token_ids: Sequence[int]) -> str:
        starts = range(0, len(token_ids), PUSH_MAX)
        return "".join(self._push(token_ids[start : start + PUSH_MAX]) for start in starts)

    def _push(self, token_ids: Sequence[int]) -> str:
        self._window += token_ids
        text = self._decode(self._window)
        stable = len(text) - unfinished(text)
        if len(self._window) > WINDOW_MAX:
            return self._give_up(text)
        piece = text[self._emitted : stable]
        self._emitted = max(self._emitted, stable)
        if piece and stable == len(text):
            self._slide()
        return piece

    def _slide(self) -> None:
        self._window = self._window[self._settled :]
        self._settled = len(self._window)
        self._emitted = len(self._decode(self._window))

    def _give_up(self, text: str) -> str:
        """Settle tokens that make no character. So many of them are special tokens, or bytes that
        are no text."""
        piece = text[self._emitted :]
        if piece:
            self._slide()
        else:
            del self._window[self._settled :]
        return piece


def unfinished(text: str) -> int:
    """The number of replacement signs at the end that later bytes may turn into a character."""
    signs = len(text) - len(text.rstrip(REPLACEMENT))
    return min(signs, UNFINISHED_MAX)
