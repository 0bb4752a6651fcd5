"""`/v1/tokenize` and `/v1/detokenize` on the wire, in vLLM's shapes; nothing is dropped silently.

Knows no tokenizer: what is asked for, and how the answer looks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gateway.errors import bad_request
from gateway.wire.chat import checked, json_object, plain_message
from gateway.wire.checks import CHECKS, Check

_STRING, _BOOLEAN, _MESSAGES = CHECKS["model"], CHECKS["stream"], CHECKS["messages"]
TOKEN_ID_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class TokenizeRequest:
    """Either a prompt or messages; the other is None."""

    model: str
    prompt: str | None
    messages: tuple[dict[str, Any], ...] | None
    add_generation_prompt: bool
    add_special_tokens: bool
    return_token_strs: bool


@dataclass(frozen=True, slots=True)
class DetokenizeRequest:
    model: str
    tokens: tuple[int, ...]


def parse_tokenize(body: bytes) -> TokenizeRequest:
    """Raises ApiError 400 naming the parameter."""
    fields = checked(json_object(body), TOKENIZE)
    _require(fields, "model")
    prompt, messages = fields.get("prompt"), fields.get("messages")
    if (prompt is None) == (messages is None):
        message = "Exactly one of 'prompt' and 'messages' is required."
        raise bad_request(message, "prompt", "missing_required_parameter")
    of_the_other = "add_special_tokens" if prompt is None else "add_generation_prompt"
    if fields.get(of_the_other) is not None:
        given = "messages" if prompt is None else "prompt"
        message = f"'{of_the_other}' cannot be used with '{given}'."
        raise bad_request(message, of_the_other, "unsupported_parameter")
    return TokenizeRequest(
        model=fields["model"],
        prompt=prompt,
        messages=tuple(map(plain_message, messages)) if messages is not None else None,
        add_generation_prompt=fields.get("add_generation_prompt") is not False,
        add_special_tokens=fields.get("add_special_tokens") is not False,
        return_token_strs=bool(fields.get("return_token_strs")),
    )


def parse_detokenize(body: bytes) -> DetokenizeRequest:
    """Raises ApiError 400 naming the parameter."""
    fields = checked(json_object(body), DETOKENIZE)
    _require(fields, "model")
    _require(fields, "tokens")
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


def _require(fields: dict[str, Any], name: str) -> None:
    if fields.get(name) is None:
        message = f"Missing required parameter: '{name}'."
        raise bad_request(message, name, "missing_required_parameter")


def _token_ids(name: str, value: object) -> None:
    if not isinstance(value, list) or not all(map(_is_token_id, value)):
        message = f"Invalid type for '{name}': expected an array of token ids."
        raise bad_request(message, name, "invalid_type")


def _is_token_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKEN_ID_MAX


TOKENIZE: dict[str, Check] = {
    "model": _STRING,
    "prompt": _STRING,
    "messages": _MESSAGES,
    "add_generation_prompt": _BOOLEAN,
    "add_special_tokens": _BOOLEAN,
    "return_token_strs": _BOOLEAN,
}
DETOKENIZE: dict[str, Check] = {"model": _STRING, "tokens": _token_ids}
