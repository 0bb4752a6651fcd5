"""What an adapter hands on: one event of an answer, about one of its choices or several.

The words of the upstream as they came, checked for their types only. Text is OpenAI's `delta` or,
from a server of plain completions, `text`; a vector is base64 of little-endian float32.
"""

from typing import Annotated, Any

import msgspec

from billing.types import Usage

NO_IDS = msgspec.Raw()
Index = Annotated[int, msgspec.Meta(ge=0)]
Byte = Annotated[int, msgspec.Meta(ge=0, le=255)]


SAYING = {
    "content": "content",
    "refusal": "refusal",
    "tool_calls": "tool_calls",
    "reasoning_content": "reasoning_content",
    "reasoning": "reasoning_content",
}
"""What of a delta reaches callers, and under which name: OpenAI's words, and the reasoning of
servers outside, which newer ones of vLLM, Ollama and OpenRouter call `reasoning`."""


class Likely(msgspec.Struct, frozen=True):
    """A token that was likely in some place; `bytes` where it may be half a character."""

    token: str
    logprob: float
    bytes: list[Byte] | None = None


class Scored(Likely, frozen=True):
    """A token of the answer, and the likeliest in its place."""

    top_logprobs: list[Likely] = []


class Ranked(Likely, frozen=True):
    """A token of a prompt; `rank` is its place among all of them, `token_id` the model's number."""

    token_id: int = 0
    rank: int | None = None
    top_logprobs: list["Ranked"] = []


class Logprobs(msgspec.Struct, frozen=True):
    """Of a piece of text: `content` says it, or the four lists of plain completions do."""

    content: list[Scored] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None
    text_offset: list[int] | None = None


class FunctionPiece(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class ToolCallPiece(msgspec.Struct, frozen=True):
    """A piece of the call number `index` of a choice; `id` and the name come with the first."""

    index: Index
    id: str | None = None
    function: FunctionPiece | None = None

    @property
    def name(self) -> str:
        return (self.function and self.function.name) or ""

    @property
    def arguments(self) -> str:
        return (self.function and self.function.arguments) or ""

    def shape(self) -> dict[str, object]:
        """As OpenAI writes it: some servers say null where there is nothing more to say."""
        first: dict[str, object] = {"type": "function"} if self.id or self.name else {}
        function = {"name": self.name} if self.name else {}
        call = {"index": self.index, "function": function | {"arguments": self.arguments}} | first
        return call | {"id": self.id} if self.id else call


PromptLogprobs = list[dict[str, Any] | None]
"""Of an own worker a `Ranked` for each token of the prompt, of a server outside vLLM's words."""


class Choice(msgspec.Struct, frozen=True):
    """A piece of the answer number `index`; `finish_reason` says that it was the last one, and
    `stop_reason` which stop string ended it, as vLLM has it (or the id of a token that did)."""

    index: Index = 0
    delta: dict[str, object] = {}
    text: str | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None
    embedding: str | None = None
    stop_reason: str | int | None = None
    prompt_logprobs: PromptLogprobs | None = None

    @property
    def is_whole(self) -> bool:
        """It brings no text, but a thing in one piece."""
        return bool(self.embedding)

    @property
    def content(self) -> str:
        text = self.delta.get("content") if self.text is None else self.text
        return text if isinstance(text, str) else ""

    @property
    def full_delta(self) -> dict[str, object]:
        """What the delta says beside its role: text, refusals, calls of tools, reasoning."""
        return {SAYING[k]: value for k, value in self.delta.items() if value and k in SAYING}

    @property
    def only_text(self) -> str | None:
        """The text of a delta that says nothing else beside its role."""
        delta = self.delta
        if len(delta) != 1 and (len(delta) != 2 or "role" not in delta):
            return None
        content = delta.get("content")
        return content if content and isinstance(content, str) else None

    @property
    def has_text(self) -> bool:
        """Any output that was generated, in whatever field it came."""
        if self.text is not None:
            return bool(self.text)
        return bool(self.delta.get("content") or self.full_delta)

    @property
    def reasoning(self) -> str:
        text = self.delta.get("reasoning_content") or self.delta.get("reasoning")
        return text if isinstance(text, str) else ""

    @property
    def tool_calls(self) -> tuple[ToolCallPiece, ...]:
        """Pieces of calls; raises what msgspec raises where they are not of OpenAI's shape."""
        pieces = self.delta.get("tool_calls")
        return msgspec.convert(pieces, tuple[ToolCallPiece, ...]) if pieces else ()


class ResultChoice(Choice, frozen=True):
    """What a document says whole, as we say it: a ranking, verdicts."""

    result: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_whole(self) -> bool:
        return True


class SoundChoice(Choice, frozen=True):
    """A piece of sound."""

    sound: bytes = b""

    @property
    def is_whole(self) -> bool:
        return True

    @property
    def has_text(self) -> bool:
        return bool(self.sound)


class Frame(msgspec.Struct, frozen=True):
    """`usage` is that of the whole call so far, None where the upstream does not say; `position`
    is the number of output tokens so far, None likewise; `busy_us` is its share of its replica's
    time so far, 0 of a server outside."""

    choices: tuple[Choice, ...] = ()
    usage: Usage | None = None
    position: int | None = None
    busy_us: int = 0
    token_ids: msgspec.Raw = NO_IDS
    """Of an own worker: the ids of its tokens, as a list of JSON."""

    @property
    def says_something(self) -> bool:
        """More than who speaks: a token of any kind, a vector or an end."""
        if self.usage is not None and self.usage.output:
            return True
        return any(c.has_text or c.embedding or c.finish_reason for c in self.choices)

    @property
    def texts(self) -> int:
        """How many choices this event brings text for."""
        if len(self.choices) == 1:  # as most do
            return int(self.choices[0].has_text)
        return sum([choice.has_text for choice in self.choices])
