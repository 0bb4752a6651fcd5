"""Log probabilities of the tokens of a prompt, as own workers say them: in vLLM's words, by token
id, and as the echo of plain completions has them. A server outside that speaks vLLM is believed."""

from collections.abc import Sequence
from typing import Any

import msgspec

from gateway.call.frame import Logprobs, PromptLogprobs, Ranked, Scored

Found = PromptLogprobs | None


def ranked(found: Found) -> list[dict[str, Any] | None] | None:
    """vLLM's: nothing of the first token, and of each other one itself and the likeliest."""
    if found is None or not is_own(found):
        return found
    entries = _entries(found)
    return [None, *({str(t.token_id): _shape(t) for t in _tokens(e)} for e in entries[1:])]


def is_own(found: PromptLogprobs) -> bool:
    return bool(found) and found[0] is not None and "token_id" in found[0]


def scored(found: PromptLogprobs) -> list[Scored]:
    """The same as of tokens of an answer; what the first has is not known."""
    return [
        Scored(entry.token, entry.logprob, entry.bytes, list(entry.top_logprobs))
        for entry in _entries(found)
    ]


def echoed(found: Found, logprobs: Logprobs | None) -> Logprobs | None:
    """The prompt before the answer."""
    if found is None or not is_own(found):
        return logprobs
    said = logprobs.content if logprobs is not None and logprobs.content is not None else []
    return Logprobs(content=[*scored(found), *said])


def _entries(found: PromptLogprobs) -> list[Ranked]:
    return msgspec.convert(found, list[Ranked])


def _tokens(entry: Ranked) -> Sequence[Ranked]:
    """The likeliest by their places, and the token itself with its own."""
    top = [msgspec.structs.replace(t, rank=n) for n, t in enumerate(entry.top_logprobs, 1)]
    return [*(t for t in top if t.token_id != entry.token_id), entry]


def _shape(token: Ranked) -> dict[str, Any]:
    return {"logprob": token.logprob, "rank": token.rank, "decoded_token": token.token}
