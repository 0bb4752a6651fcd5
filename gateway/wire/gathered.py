"""The choices of a whole answer, gathered piece by piece."""

from collections.abc import Callable
from itertools import chain
from typing import TypeVar

from gateway.frame import Choice, Logprobs

T = TypeVar("T")

CUT_SHORT = "length"


class Gathered:
    """One choice, as far as it has come."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.embedding: str | None = None
        self._texts: list[str] = []
        self._logprobs: list[Logprobs] = []
        self._finish_reason: str | None = None

    def add(self, piece: Choice) -> None:
        """What comes after its end is no part of it: some servers repeat that beside the usage."""
        if self._finish_reason is not None:
            return
        self._texts.append(piece.content)
        if piece.logprobs is not None:
            self._logprobs.append(piece.logprobs)
        self.embedding = piece.embedding or self.embedding
        self._finish_reason = piece.finish_reason

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def finish_reason(self) -> str:
        """An answer that ends before this choice has finished was cut short."""
        return self._finish_reason or CUT_SHORT

    @property
    def logprobs(self) -> Logprobs | None:
        if not self._logprobs:
            return None
        return Logprobs(
            content=self._joined(lambda piece: piece.content),
            tokens=self._joined(lambda piece: piece.tokens),
            token_logprobs=self._joined(lambda piece: piece.token_logprobs),
            top_logprobs=self._joined(lambda piece: piece.top_logprobs),
            text_offset=self._joined(lambda piece: piece.text_offset),
        )

    def _joined(self, part: Callable[[Logprobs], list[T] | None]) -> list[T] | None:
        found = [values for piece in self._logprobs if (values := part(piece)) is not None]
        return list(chain.from_iterable(found)) if found else None
