"""Log probabilities of the tokens of a prompt, as own workers say them: in vLLM's words, by token
id, and as the echo of plain completions has them. A server outside that speaks vLLM is believed."""

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.call.frame import Logprobs, PromptLogprobs, Ranked, Scored

MaybeLogprobs = PromptLogprobs | None


def ranked(logprobs: MaybeLogprobs) -> list[dict[str, Any] | None] | None:
    """vLLM's: nothing of the first token, and of each other one itself and the likeliest."""
    if logprobs is None or not is_own(logprobs):
        return logprobs
    entries = _entries(logprobs)
    return [None, *({str(t.token_id): _shape(t) for t in _tokens(e)} for e in entries[1:])]


def is_own(logprobs: PromptLogprobs) -> bool:
    return bool(logprobs) and logprobs[0] is not None and "token_id" in logprobs[0]


def scored(logprobs: PromptLogprobs) -> list[Scored]:
    """The same as of tokens of an answer; what the first has is not known."""
    return [
        Scored(entry.token, entry.logprob, entry.bytes, list(entry.top_logprobs))
        for entry in _entries(logprobs)
    ]


def echoed(prompt: MaybeLogprobs, logprobs: Logprobs | None) -> Logprobs | None:
    """The prompt before the answer."""
    if prompt is None or not is_own(prompt):
        return logprobs
    content = logprobs.content if logprobs is not None and logprobs.content is not None else []
    return Logprobs(content=[*scored(prompt), *content])


def _entries(logprobs: PromptLogprobs) -> list[Ranked]:
    return msgspec.convert(logprobs, list[Ranked])


def _tokens(entry: Ranked) -> Sequence[Ranked]:
    """The likeliest by their places, and the token itself with its own."""
    top = [msgspec.structs.replace(t, rank=n) for n, t in enumerate(entry.top_logprobs, 1)]
    return [*(t for t in top if t.token_id != entry.token_id), entry]


def _shape(token: Ranked) -> dict[str, Any]:
    return {"logprob": token.logprob, "rank": token.rank, "decoded_token": token.token}
