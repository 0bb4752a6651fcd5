"""What a provider says it used, in OpenAI's shape, from which the gateway reads disjoint classes:
what was read from a cache or written to one stands inside of the prompt, reasoning and audio inside
of their wholes. Pure."""

from collections.abc import Mapping
from typing import Any

PROMPT = ("cached_tokens", "cache_write_tokens", "audio_tokens")
COMPLETION = ("reasoning_tokens", "audio_tokens")


def usage_of(usage: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """`usage` is the library's, as a document. None where it counts nothing: no call is free, so
    nobody has counted, and the gateway does it."""
    usage = usage or {}
    prompt, completion = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    if not prompt + completion:
        return None
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": _parts(usage, "prompt_tokens_details", PROMPT),
        "completion_tokens_details": _parts(usage, "completion_tokens_details", COMPLETION),
    }


def _parts(usage: Mapping[str, Any], whole: str, names: tuple[str, ...]) -> dict[str, int]:
    details = usage.get(whole)
    return {name: _count(details if isinstance(details, Mapping) else {}, name) for name in names}


def _count(counts: Mapping[str, Any], name: str) -> int:
    value = counts.get(name)
    return max(0, int(value)) if isinstance(value, int | float) else 0
