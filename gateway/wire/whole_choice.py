"""The choices of a whole answer, gathered piece by piece."""

from collections.abc import Callable
from itertools import chain
from typing import Any, TypeVar

import msgspec

from gateway.call.frame import Choice, Logprobs, PromptLogprobs, ResultChoice, ToolCallPiece
from gateway.wire.call_pieces import CallPieces

T = TypeVar("T")

CUT_SHORT = "length"
NO_RESULT = msgspec.Raw(b"null")


class WholeChoice:
    """One choice, as far as it has come."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.embedding: str | None = None
        self.result = NO_RESULT
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._pieces = CallPieces()
        self._logprobs: list[Logprobs] = []
        self._finish_reason: str | None = None
        self.stop_reason: str | int | None = None
        self.prompt_logprobs: PromptLogprobs | None = None

    def add(self, piece: Choice) -> None:
        """What comes after its end is no part of it: some servers repeat that beside the usage."""
        if self._finish_reason is not None:
            return
        if (text := piece.only_text if piece.text is None else piece.text) is not None:
            self._texts.append(text)
        else:
            self._add_delta(piece)
        if text is None or piece.finish_reason is not None:
            for call in self._pieces.next(piece):
                self._calls.setdefault(call.index, _Call()).add(call)
        if piece.prompt_logprobs is not None:
            self.prompt_logprobs = piece.prompt_logprobs
        if piece.logprobs is not None:
            self._logprobs.append(piece.logprobs)
        self.embedding = piece.embedding or self.embedding
        if isinstance(piece, ResultChoice):
            self.result = piece.result
        self._finish_reason = piece.finish_reason
        self.stop_reason = piece.stop_reason

    def _add_delta(self, piece: Choice) -> None:
        self._texts.append(piece.content)
        self._reasoning.append(piece.reasoning)
        if isinstance(refusal := piece.delta.get("refusal"), str):
            self._refusals.append(refusal)

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def refusal(self) -> str | None:
        return "".join(self._refusals) or None

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    @property
    def tool_calls(self) -> tuple[dict[str, Any], ...]:
        """The calls of tools, whole, in OpenAI's shape."""
        if not self._calls:
            return ()
        return tuple(call.shape() for _, call in sorted(self._calls.items()))

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
        lists = [values for piece in self._logprobs if (values := part(piece)) is not None]
        return list(chain.from_iterable(lists)) if lists else None


class _Call:
    """One call of a tool, as far as it has come."""

    def __init__(self) -> None:
        self._id = self._name = ""
        self._arguments: list[str] = []

    def add(self, piece: ToolCallPiece) -> None:
        self._id = self._id or piece.id or ""
        self._name = self._name or piece.name
        self._arguments.append(piece.arguments)

    def shape(self) -> dict[str, Any]:
        function = {"name": self._name, "arguments": "".join(self._arguments)}
        return {"id": self._id, "type": "function", "function": function}
