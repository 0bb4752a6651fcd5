"""`/v1/tokenize` and `/v1/detokenize` on the wire, in vLLM's shapes; nothing is dropped silently.

Knows no tokenizer: what is asked for, and how the answer looks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.errors import bad_request
from gateway.wire.checks import Check, boolean, checked, string
from gateway.wire.messages import (
    characters,
    conversation,
    images,
    images_not_taken,
    plain_message,
)
from gateway.wire.prompts import token_ids
from gateway.wire.tools import tools


@dataclass(frozen=True, slots=True)
class TokenizeRequest:
    """Either a prompt or messages; the other is None."""

    model: str
    prompt: str | None
    messages: tuple[dict[str, Any], ...] | None
    tools: tuple[dict[str, Any], ...]
    add_generation_prompt: bool
    add_special_tokens: bool
    return_token_strs: bool

    @property
    def param(self) -> str:
        return "messages" if self.prompt is None else "prompt"

    def longest_characters(self) -> int:
        return characters(self.messages or ()) if self.prompt is None else len(self.prompt)


@dataclass(frozen=True, slots=True)
class DetokenizeRequest:
    model: str
    tokens: tuple[int, ...]


def parse_tokenize(body: bytes) -> TokenizeRequest:
    """Raises ApiError 400 naming the parameter."""
    fields = checked(body, TOKENIZE, "model")
    prompt, messages = fields.get("prompt"), fields.get("messages")
    if (prompt is None) == (messages is None):
        message = "Exactly one of 'prompt' and 'messages' is required."
        raise bad_request(message, "prompt", "missing_required_parameter")
    given, others = ("prompt", OF_MESSAGES) if messages is None else ("messages", OF_A_PROMPT)
    for of_the_other in others:
        if fields.get(of_the_other) is not None:
            message = f"'{of_the_other}' cannot be used with '{given}'."
            raise bad_request(message, of_the_other, "unsupported_parameter")
    if seen := images("messages", messages or ()):
        raise images_not_taken(seen[0])
    return TokenizeRequest(
        model=fields["model"],
        prompt=prompt,
        messages=tuple(map(plain_message, messages)) if messages is not None else None,
        tools=tuple(fields.get("tools") or ()),
        add_generation_prompt=fields.get("add_generation_prompt") is not False,
        add_special_tokens=fields.get("add_special_tokens") is not False,
        return_token_strs=bool(fields.get("return_token_strs")),
    )


def parse_detokenize(body: bytes) -> DetokenizeRequest:
    """Raises ApiError 400 naming the parameter."""
    fields = checked(body, DETOKENIZE, "model", "tokens")
    return DetokenizeRequest(fields["model"], tuple(fields["tokens"]))


def tokenized(
    tokens: Sequence[int], context_tokens: int, strings: Sequence[str] | None
) -> dict[str, Any]:
    return {
        "count": len(tokens),
        "max_model_len": context_tokens,
        "tokens": tokens,
        "token_strs": strings,
    }


OF_A_PROMPT = ("add_special_tokens",)
OF_MESSAGES = ("add_generation_prompt", "tools")
TOKENIZE: dict[str, Check] = {
    "model": string,
    "prompt": string,
    "messages": conversation,
    "tools": tools,
    "add_generation_prompt": boolean,
    "add_special_tokens": boolean,
    "return_token_strs": boolean,
}
DETOKENIZE: dict[str, Check] = {"model": string, "tokens": token_ids}
