"""Which fields of a body go on to a provider. Pure: a field is mapped by the library, says nothing
there, or is refused by its name; none is dropped unsaid."""

from collections.abc import Collection, Mapping
from typing import Any

from providers.refused import CallRefused

ALWAYS = frozenset({"model", "messages", "prompt", "input", "stream", "stream_options"})
LABELS = frozenset({"user", "safety_identifier", "prompt_cache_key", "metadata"})
"""What says who asks and why, and changes no answer: left out where a provider has no such field.
`metadata` is never sent: in the library it is a field of its own logs."""
NEUTRAL: Mapping[str, Any] = {
    "n": 1,
    "parallel_tool_calls": True,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "logprobs": False,
    "encoding_format": "float",
}
"""What asks for nothing."""
PARTS = frozenset({"text", "image_url", "input_audio", "refusal"})
"""Of a message."""
TEXT = frozenset(
    {
        "max_tokens",
        "temperature",
        "top_p",
        "stop",
        "seed",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "user",
    }
)
CHAT = TEXT | {
    "max_completion_tokens",
    "n",
    "logprobs",
    "top_logprobs",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "response_format",
    "reasoning_effort",
    "verbosity",
    "thinking",
    "prompt_cache_key",
    "service_tier",
}
"""Of a text to go on with. The library's streams of these have one choice without log
probabilities."""
EMBEDDINGS = frozenset({"dimensions", "encoding_format", "user"})
OWN: Mapping[str, frozenset[str]] = {
    "anthropic": frozenset({"top_k"}),
    "gemini": frozenset({"top_k"}),
}
"""Fields beside OpenAI's that the library sends to these providers as they are."""


def fields_for(
    provider: str, supported: Collection[str], body: Mapping[str, Any], known: frozenset[str] = CHAT
) -> dict[str, Any]:
    """The arguments for the library; `supported` are the fields that it maps for the model. Raises
    CallRefused 400 with the first field that the provider has nothing for."""
    taken = known & frozenset(supported) | OWN.get(provider, frozenset())
    arguments = {}
    for name, value in body.items():
        if name in ALWAYS or value is None:
            continue
        if name in taken:
            arguments[name] = value
        elif name not in LABELS and not (name in NEUTRAL and NEUTRAL[name] == value):
            words = f"The provider {provider} takes no '{name}' for this model."
            raise CallRefused(400, words, param=name, code="unsupported_parameter")
    return arguments


def refuse_all_but_one_text(prompt: Any) -> None:
    """Raises CallRefused 400."""
    if not isinstance(prompt, str):
        words = "An adapter goes on with one prompt of text a call."
        raise CallRefused(400, words, param="prompt", code="unsupported_parameter")


def refuse_what_is_elsewhere(messages: Any) -> None:
    """The library would fetch an image by its URL, from wherever a caller says: parts come whole.
    Raises CallRefused 400."""
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        for part in content if isinstance(content, list) else ():
            if not isinstance(part, dict) or part.get("type") not in PARTS:
                words = f"An adapter takes no part of type '{_type_of(part)}'."
                raise CallRefused(400, words, param="messages", code="unsupported_parameter")
            if part["type"] == "image_url" and not _is_whole(part.get("image_url")):
                words = "An adapter takes images as data: URLs, and fetches none."
                raise CallRefused(400, words, param="messages", code="unsupported_parameter")


def _type_of(part: Any) -> str:
    return str(part.get("type") if isinstance(part, dict) else part)[:40]


def _is_whole(image: Any) -> bool:
    url = image.get("url") if isinstance(image, dict) else image
    return isinstance(url, str) and url.lower().startswith("data:")
