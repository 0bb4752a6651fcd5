"""Triton by the generate extension of KServe's version 2: one text in, one text out.

What a call asks of such a server, and what that says, read into Frames. Pure. A field is mapped,
says nothing there, or is refused by its name; none is dropped unsaid.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from billing.types import UNREADABLE, Usage
from gateway.call.frame import Choice, Frame
from gateway.catalog.tokenizers import CheckpointTokens, TokenCounter, UnrenderableConversation
from gateway.upstream.answer import Cut, Malformed, Rejection, Reported
from gateway.upstream.chunks import FINISH_REASONS, TOKEN_BYTES, Count
from gateway.wire.bodies.conversation import CACHING, HINTS, LABELS
from gateway.wire.bodies.messages import IMAGE, plain_message
from workers.prompts.templates import ToolsUnsupported
from workers.sampling import Rendering

NUMBERS = frozenset({"max_tokens", "temperature", "top_p", "top_k", "seed"})
SCALARS = (str, int, float, bool)
"""All that a parameter may be."""
ASKED = {
    "exclude_input_in_output": True,
    "return_num_input_tokens": True,
    "return_num_output_tokens": True,
    "return_finish_reason": True,
}
"""What vLLM's backend says only if it is asked to. Other backends leave it aside."""
FAILED = "the model of the server failed"


class Unmapped(Exception):
    """The extension has nothing for a field."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.rejection = Rejection(400, message, "unsupported_parameter", param)


@dataclass(frozen=True, slots=True)
class Awaited:
    """What is awaited of a server, and how it is counted where the server does not."""

    tokens: TokenCounter
    prompt_tokens: int
    output_tokens_max: int
    is_chat: bool


class Generate(NamedTuple):
    document: dict[str, Any]
    left_out: tuple[str, ...]
    """Hints that the call had."""


def generate_url(base_url: str, model: str, *, stream: bool) -> str:
    """A name may have a version: `NAME/versions/1`."""
    base = base_url.rstrip("/").removesuffix("/v2")
    verb = "generate_stream" if stream else "generate"
    return f"{base}/v2/models/{quote(model)}/{verb}"


def generate_of(
    body: Mapping[str, Any], tokens: TokenCounter, extra: Collection[str], *, stream: bool
) -> Generate:
    """Of a body in OpenAI's words; `extra` are parameters that the pool takes beside. Raises
    Unmapped."""
    fields = {name: value for name, value in body.items() if value is not None}
    for ours in ("model", "stream", "stream_options", *LABELS):
        fields.pop(ours, None)
    if fields.pop("n", 1) != 1:
        raise Unmapped("n", "The server of this model gives one answer a call.")
    text = _conversation(fields, tokens) if "messages" in fields else _prompt(fields)
    left_out = tuple(name for name in (*HINTS, *CACHING) if fields.pop(name, None) is not None)
    parameters = {name: _parameter(name, value, extra) for name, value in fields.items()}
    parameters |= ASKED | {"stream": stream}
    return Generate({"text_input": text, "parameters": parameters}, left_out)


def _parameter(name: str, value: Any, extra: Collection[str]) -> str | int | float | bool:
    if name == "stop" and isinstance(value, list) and len(value) == 1:
        value = value[0]
    if name == "stop" and not isinstance(value, str):
        raise Unmapped(name, "The server of this model takes one stop sequence.")
    if name not in NUMBERS and name != "stop" and name not in extra:
        raise Unmapped(name, f"The server of this model takes no '{name}'.")
    if not isinstance(value, SCALARS):
        raise Unmapped(name, f"The server of this model takes no list or object as '{name}'.")
    return value


def _prompt(fields: dict[str, Any]) -> str:
    prompt = fields.pop("prompt", None)
    if not isinstance(prompt, str):
        param = "prompt" if prompt is not None else "input"
        raise Unmapped(param, "The server of this model goes on with one prompt of text a call.")
    return prompt


def _conversation(fields: dict[str, Any], tokens: TokenCounter) -> str:
    """As the template of the model writes it. Without one a conversation is what a user says."""
    messages: Sequence[dict[str, Any]] = fields.pop("messages")
    if any(map(_shows_an_image, messages)):
        raise Unmapped("messages", "The server of this model takes text alone.")
    rendering = {name: fields.pop(name) for name in Rendering.__struct_fields__ if name in fields}
    plain = [plain_message(message) for message in messages]
    if isinstance(tokens, CheckpointTokens):
        try:
            return tokens.conversation_text(plain, Rendering(**rendering))
        except ToolsUnsupported as refused:
            raise Unmapped(refused.param, str(refused)) from refused
        except UnrenderableConversation as refused:
            raise Unmapped("messages", str(refused)) from refused
    if rendering or len(plain) > 1 or plain[0]["role"] != "user":
        message = "No template of this model is here: a conversation is one message of a user."
        raise Unmapped(next(iter(rendering), "messages"), message)
    return str(plain[0]["content"])


def _shows_an_image(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(part.get("type") == IMAGE for part in content)


class _GenerateResponse(msgspec.Struct):
    text_output: str | list[str] | None = None
    error: str | None = None
    finish_reason: str | None = None
    num_input_tokens: Count | None = None
    num_output_tokens: Count | None = None


class Generated:
    """One answer, as far as it has come. A stream has no word for its end but that it ends."""

    def __init__(self, awaited: Awaited) -> None:
        self._awaited = awaited
        self._texts: list[str] = []
        self._prompt_tokens: int | None = None
        self._output_tokens = 0
        self._reason: str | None = None
        self.is_begun = False

    def read(self, payload: bytes) -> Frame:
        """Raises Malformed, and Reported with what the server says."""
        try:
            response = msgspec.json.decode(payload, type=_GenerateResponse)
        except UNREADABLE as malformed:
            raise Malformed(f"a malformed chunk: {malformed}") from malformed
        if response.error is not None:
            raise Reported({"message": FAILED, "detail": response.error})
        text = response.text_output
        text = "".join(text) if isinstance(text, list) else text
        if text is None:
            raise Malformed("a malformed chunk: it has no text_output")
        self.is_begun = True
        self._texts.append(text)
        self._reason = response.finish_reason or self._reason
        if response.num_input_tokens is not None:
            self._prompt_tokens = response.num_input_tokens
        self._output_tokens += response.num_output_tokens or 0
        return Frame((self._choice(text),), None)

    def end(self) -> Frame:
        """Raises Cut where its model says that this is none."""
        usage = self._usage()
        is_full = usage is not None and usage.output >= self._awaited.output_tokens_max
        reason = self._reason or ("length" if is_full else "stop")
        if reason not in FINISH_REASONS:
            raise Cut(f"the server ended an answer with '{reason[:64]}'")
        return Frame((self._choice("", reason),), usage)

    def whole(self, document: bytes) -> Frame:
        """An answer in one piece. Raises as `read` and `end` do."""
        text = self.read(document).choices[0].content
        end = self.end()
        usage = end.usage
        if usage is None:
            size = len(text.encode())
            usage = Usage(self._awaited.prompt_tokens, output=-(-size // TOKEN_BYTES))
        return Frame((self._choice(text, end.choices[0].finish_reason),), usage)

    def _choice(self, text: str, reason: str | None = None) -> Choice:
        if self._awaited.is_chat:
            return Choice(delta={"content": text} if text else {}, finish_reason=reason)
        return Choice(text=text, finish_reason=reason)

    def _usage(self) -> Usage | None:
        """What the server has counted, else what the tokenizer of the model counts. None without
        either."""
        tokens, output = self._awaited.tokens, self._output_tokens
        if not output and isinstance(tokens, CheckpointTokens):
            output = len(tokens.text_ids("".join(self._texts), add_special_tokens=False))
        elif not output:
            return None
        return Usage(self._prompt_tokens or self._awaited.prompt_tokens, output=output)
