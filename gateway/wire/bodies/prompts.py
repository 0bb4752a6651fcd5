"""Prompts that are plain: a string, an array of token ids, or several of one kind of these."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.catalog.tokenizers import TokenCounter, UnknownTokenId
from gateway.errors import bad_request
from gateway.wire.bodies.checks import Check, empty_array, invalid_type
from gateway.wire.json_schema import Schema, array, between, either, text
from routing.types import AUTO_MODEL

Prompt = str | tuple[int, ...]

TOKEN_ID_MAX = 2**31 - 1
PROMPT_KINDS = "a string, an array of strings, of token ids or of arrays of token ids"
TOKEN_ID = between(0, TOKEN_ID_MAX, "integer")
WORDS = text(minLength=1)
IDS = array(TOKEN_ID, minItems=1)


def prompts(most: int) -> Check:
    """The check of up to so many prompts; none may be empty, for what a model makes of nothing is
    its own affair."""

    def check(name: str, value: object) -> None:
        if isinstance(value, str) or _is_array_of(int, value):
            _prompt(name, value)
            return
        if not isinstance(value, list):
            raise invalid_type(name, PROMPT_KINDS, value)
        if not value:
            raise empty_array(name)
        if not _is_array_of(str, value) and not _is_array_of(list, value):
            raise invalid_type(name, PROMPT_KINDS, value)
        if len(value) > most:
            raise bad_request(
                f"Invalid '{name}': array too long. Expected an array with maximum length {most}, "
                f"but got an array with length {len(value)} instead.",
                name,
                "array_above_max_length",
            )
        for index, prompt in enumerate(value):
            _prompt(f"{name}[{index}]", prompt)

    return check


def texts(most: int) -> Schema:
    """What passes `prompts`."""
    several = (array(WORDS, minItems=1, maxItems=most), array(IDS, minItems=1, maxItems=most))
    return either(WORDS, IDS, *several)


def _is_array_of(kind: type, value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(v, kind) for v in value)


def _prompt(name: str, value: object) -> None:
    if value == "":
        message = f"Invalid '{name}': empty string. Expected a string with minimum length 1."
        raise bad_request(message, name, "empty_string")
    if value == []:
        raise empty_array(name)
    if isinstance(value, list):
        token_ids(name, value)


def token_ids(name: str, value: object) -> None:
    if not isinstance(value, list) or not all(map(_is_token_id, value)):
        message = (
            f"Invalid type for '{name}': expected an array of token ids, which are integers of 0 or"
            " more."
        )
        raise bad_request(message, name, "invalid_type")


def _is_token_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKEN_ID_MAX


def prompt_list(name: str, value: Any, model: str) -> tuple[Prompt, ...]:
    """What passed the check, always as several. Raises ApiError 400 for token ids where the router
    is to choose the model."""
    several = [value] if isinstance(value, str) or _is_array_of(int, value) else value
    if model == AUTO_MODEL and not _is_array_of(str, several):
        message = "Token ids belong to one model: name it, for 'auto' may choose another."
        raise bad_request(message, name, "invalid_value")
    return tuple(prompt if isinstance(prompt, str) else tuple(prompt) for prompt in several)


OF_TOKENS = ("logit_bias", "stop_token_ids")


def check_own_tokens(fields: Any) -> None:
    """Raises ApiError 400 for what names tokens where the router is to choose the model."""
    if fields.model != AUTO_MODEL:
        return
    for name in OF_TOKENS:
        if getattr(fields, name):
            message = "Token ids belong to one model: name it, for 'auto' may choose another."
            raise bad_request(message, name, "invalid_value")


def check_tokens_known(sampling: Mapping[str, Any], tokens: TokenCounter) -> None:
    """Raises ApiError 400 for what names a token that the model does not have."""
    for name in OF_TOKENS:
        if token_ids_of_field := sampling.get(name):
            try:
                tokens.count_ids([int(token) for token in token_ids_of_field])
            except UnknownTokenId as unknown:
                raise bad_request(str(unknown), name, "invalid_value") from unknown


def longest_characters(prompts_of_call: Sequence[Prompt]) -> int:
    """Of the longest text; token ids are counted already."""
    return max((len(prompt) for prompt in prompts_of_call if isinstance(prompt, str)), default=0)


def prompt_tokens(prompts_of_call: Sequence[Prompt], tokens: TokenCounter, param: str) -> list[int]:
    """Of each prompt: a string with the special tokens that the tokenizer puts around it.

    Raises ApiError 400 naming `param` for a token id that the model does not have, so that no
    worker is started to say so.
    """
    try:
        return [
            tokens.count_text(p) if isinstance(p, str) else tokens.count_ids(p)
            for p in prompts_of_call
        ]
    except UnknownTokenId as unknown:
        raise bad_request(str(unknown), param, "invalid_value") from unknown
