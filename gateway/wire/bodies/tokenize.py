"""`/v1/tokenize` and `/v1/detokenize` on the wire, in vLLM's shapes; nothing is dropped silently.

Knows no tokenizer: what is asked for, and how the answer looks.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from gateway.errors import bad_request
from gateway.wire.bodies.messages import (
    Messages,
    characters,
    images,
    images_not_taken,
    plain_message,
)
from gateway.wire.bodies.prompts import TOKEN_ID, token_ids
from gateway.wire.bodies.rules import Reader, own
from gateway.wire.bodies.tools import Tools
from gateway.wire.json_schema import array


class TokenizeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: str
    prompt: str | None = None
    messages: Messages | None = None
    tools: Tools | None = None
    add_generation_prompt: bool | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class DetokenizeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    model: str
    tokens: Annotated[list[int], own(token_ids, array(TOKEN_ID))]


TOKENIZE, DETOKENIZE = Reader(TokenizeBody), Reader(DetokenizeBody)
OF_A_PROMPT = ("add_special_tokens",)
OF_MESSAGES = ("add_generation_prompt", "tools")


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
    fields, _ = TOKENIZE.read(body)
    if (fields.prompt is None) == (fields.messages is None):
        message = "Exactly one of 'prompt' and 'messages' is required."
        raise bad_request(message, "prompt", "missing_required_parameter")
    name, fields_of_the_other = (
        ("messages", OF_A_PROMPT) if fields.prompt is None else ("prompt", OF_MESSAGES)
    )
    for of_the_other in fields_of_the_other:
        if getattr(fields, of_the_other) is not None:
            message = f"'{of_the_other}' cannot be used with '{name}'."
            raise bad_request(message, of_the_other, "unsupported_parameter")
    if image_paths := images("messages", fields.messages or ()):
        raise images_not_taken(image_paths[0])
    return TokenizeRequest(
        model=fields.model,
        prompt=fields.prompt,
        messages=None if fields.messages is None else tuple(map(plain_message, fields.messages)),
        tools=tuple(fields.tools or ()),
        add_generation_prompt=fields.add_generation_prompt is not False,
        add_special_tokens=fields.add_special_tokens is not False,
        return_token_strs=bool(fields.return_token_strs),
    )


def parse_detokenize(body: bytes) -> DetokenizeRequest:
    """Raises ApiError 400 naming the parameter."""
    fields, _ = DETOKENIZE.read(body)
    return DetokenizeRequest(fields.model, tuple(fields.tokens))
