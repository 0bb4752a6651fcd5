"""The room a call has: which models its longest prompt fits into, and what is left for output."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from gateway.call.request import GeneratingRequest, Payload
from gateway.errors import ApiError, bad_request, context_length_exceeded
from routing.types import Model, Task


class Countable(Protocol):
    """Text that has not been counted yet; errors name the field `param`."""

    @property
    def param(self) -> str: ...

    def longest_characters(self) -> int:
        """Of the longest prompt."""
        ...


class Room(msgspec.Struct, frozen=True):
    """`output_tokens_each` is what every choice may have, whichever of `models` it ends on."""

    models: tuple[Model, ...]
    output_tokens_each: int


CHARACTERS_PER_TOKEN_MAX = 64
"""No prompt that fits a context has more of them on average; longer ones are not even counted, for
that takes seconds and hundreds of megabytes where somebody sends megabytes."""


def cut(
    request: GeneratingRequest, models: Sequence[Model], prompts: Mapping[str, Sequence[int]]
) -> Mapping[str, Sequence[int]]:
    """What is left of each prompt, by model, where the call has long ones truncated."""
    most = request.payload.truncate_prompt_tokens
    if most is None:
        return prompts
    lengths = {}
    for model in models:
        longest = _longest_prompt(request, model) if most < 0 else most
        lengths[model.name] = [min(tokens, longest) for tokens in prompts[model.name]]
    return lengths


def held_tokens(model: Model, whole: Sequence[int], cut_tokens: Sequence[int]) -> int:
    """Tokens of the prompts that money is held for: whether a server outside truncates them, as it
    is asked to, is not known before it says what it used."""
    return sum(whole if model.path is None else cut_tokens)


def _longest_prompt(request: GeneratingRequest, model: Model) -> int:
    """As many tokens as leave room for the answer that is asked for."""
    if request.payload.task is Task.EMBED:
        return model.context_tokens
    return max(1, model.context_tokens - (request.output_tokens_max or 1))


def require_countable(model: Model, payload: Countable, body_bytes: int) -> None:
    """Raises ApiError 400 where a prompt of that body is beyond all counting."""
    most = model.context_tokens * CHARACTERS_PER_TOKEN_MAX
    if body_bytes <= most:
        return
    characters = payload.longest_characters()
    if characters > most:
        raise context_length_exceeded(
            f"This model's maximum context length is {model.context_tokens} tokens. However, "
            f"'{payload.param}' has {characters} characters, more than any such prompt. Please "
            "reduce the length.",
            payload.param,
        )


def room_for(
    request: GeneratingRequest, models: Sequence[Model], prompts: Mapping[str, Sequence[int]]
) -> Room:
    """`prompts` are the tokens of each prompt, by model. Raises ApiError 400 where no model has
    room for as much output as was asked for, or for a token where nothing was said."""
    ceiling = request.output_tokens_max
    least = 1 if ceiling is None else ceiling
    room = {model.name: _left(model, max(prompts[model.name])) for model in models}
    fitting = tuple([model for model in models if room[model.name] >= least])
    if not fitting:
        _check_ceiling(models, prompts, least)
        widest = max(models, key=lambda model: model.context_tokens)
        raise _too_long(widest, request.payload, prompts[widest.name], ceiling or 0)
    each = min(room[model.name] for model in fitting) if ceiling is None else ceiling
    return Room(fitting, each)


def room_with_fallbacks(
    request: GeneratingRequest, models: Sequence[Model], prompts: Mapping[str, Sequence[int]]
) -> Room:
    """The same, where the first model is the one that was asked for: another one never takes from
    the room that it has. Raises ApiError 400."""
    named, *others = models
    try:
        room = room_for(request, [named], prompts)
    except ApiError:
        return room_for(request, models, prompts)
    each = room.output_tokens_each
    able = [other for other in others if _left(other, max(prompts[other.name])) >= each]
    return Room((named, *able), each)


def _left(model: Model, prompt_tokens: int) -> int:
    return min(model.max_output_tokens, model.context_tokens - prompt_tokens)


def _check_ceiling(
    models: Sequence[Model], prompts: Mapping[str, Sequence[int]], output_tokens: int
) -> None:
    """Raises ApiError 400 where the context has room and the model just never writes as much."""
    fit = [m for m in models if max(prompts[m.name]) + output_tokens <= m.context_tokens]
    if fit:
        most = max(model.max_output_tokens for model in fit)
        raise bad_request(
            f"'max_tokens' is too large: {output_tokens}. This model supports at most {most}"
            " completion tokens.",
            "max_tokens",
            "invalid_value",
        )


def _too_long(
    model: Model, payload: Payload, prompts: Sequence[int], output_tokens: int
) -> ApiError:
    """Names the longest prompt, where there are several."""
    prompt_tokens = max(prompts)
    several = len(prompts) > 1
    param = f"{payload.param}[{prompts.index(prompt_tokens)}]" if several else payload.param
    parts = f"{prompt_tokens} in '{param}'"
    if payload.task is Task.GENERATE:
        parts += f", {output_tokens} in the completion"
    return context_length_exceeded(
        f"This model's maximum context length is {model.context_tokens} tokens. However, you "
        f"requested {prompt_tokens + output_tokens} tokens ({parts}). Please reduce the length.",
        param,
    )
