"""What the routes that read their bodies by hand take, as JSON Schema, by path.

A test holds each to its table of checks: they know the same names.
"""

from typing import Any

from gateway.api import message_shapes, response_shapes
from gateway.api.chat_shapes import (
    MESSAGE,
    METADATA,
    RESPONSE_FORMAT,
    STREAM_OPTIONS,
    TOOL_CHOICE,
    TOOLS,
)
from gateway.api.json_schema import (
    ANYTHING,
    BOOLEAN,
    NOTHING,
    STRING,
    Schema,
    array,
    between,
    const,
    either,
    maybe,
    objects,
    one_of,
    text,
)
from gateway.wire.checks import BIASES_MAX, CHOICES_MAX, SERVICE_TIERS, STOP_MAX, USER_MAX
from gateway.wire.checks import TOKEN_ID as TOKEN_ID_TEXT
from gateway.wire.completions import LOGPROBS_MAX
from gateway.wire.conversation import (
    PROMPT_CACHE_KEY_MAX,
    SAFETY_IDENTIFIER_MAX,
    TOP_LOGPROBS_MAX,
)
from gateway.wire.embeddings import DIMENSIONS_MAX, INPUTS_MAX
from gateway.wire.prompts import TOKEN_ID_MAX

CHOICES = between(1, CHOICES_MAX, "integer")
TOKENS_MAX = between(1, 2**31, "integer")
TOKEN_ID = between(0, TOKEN_ID_MAX, "integer")
WORDS = text(minLength=1)
IDS = array(TOKEN_ID, minItems=1)
PENALTY = between(-2, 2)


def texts(most: int) -> Schema:
    """Up to so many prompts, as `gateway/wire/prompts.py` checks them."""
    several = (array(WORDS, minItems=1, maxItems=most), array(IDS, minItems=1, maxItems=most))
    return either(WORDS, IDS, *several)


COMMON: dict[str, Schema] = {
    "model": STRING,
    "service_tier": one_of(SERVICE_TIERS),
    "user": text(maxLength=USER_MAX),
}
GENERATED: dict[str, Schema] = COMMON | {
    "stream": BOOLEAN,
    "stream_options": STREAM_OPTIONS,
    "max_tokens": TOKENS_MAX,
    "temperature": between(0, 2),
    "top_p": between(0, 1),
    "stop": either(WORDS, array(WORDS, maxItems=STOP_MAX)),
    "seed": between(-(2**63), 2**63 - 1, "integer"),
    "n": CHOICES,
    "presence_penalty": PENALTY,
    "frequency_penalty": PENALTY,
    "logit_bias": {
        "type": "object",
        "additionalProperties": between(-100, 100),
        "propertyNames": {"pattern": f"^({TOKEN_ID_TEXT.pattern})$"},
        "maxProperties": BIASES_MAX,
    },
}
CHAT: dict[str, Schema] = GENERATED | {
    "messages": array(MESSAGE, minItems=1),
    "max_completion_tokens": TOKENS_MAX,
    "logprobs": BOOLEAN,
    "top_logprobs": between(0, TOP_LOGPROBS_MAX, "integer"),
    "safety_identifier": text(maxLength=SAFETY_IDENTIFIER_MAX),
    "metadata": METADATA,
    "store": const(False),
    "response_format": RESPONSE_FORMAT,
    "modalities": const(["text"]),
    "tools": TOOLS,
    "tool_choice": TOOL_CHOICE,
    "parallel_tool_calls": BOOLEAN,
    "functions": const([]),
    "function_call": const("none"),
    "audio": NOTHING,
    "prediction": NOTHING,
    "reasoning_effort": const("none"),
    "verbosity": const("medium"),
    "web_search_options": NOTHING,
    "prompt_cache_key": text(maxLength=PROMPT_CACHE_KEY_MAX),
    "prompt_cache_options": NOTHING,
    "prompt_cache_retention": const("in_memory"),
    "moderation": NOTHING,
}
COMPLETION: dict[str, Schema] = GENERATED | {
    "prompt": texts(CHOICES_MAX),
    "best_of": between(0, 20, "integer"),
    "echo": BOOLEAN,
    "logprobs": between(0, LOGPROBS_MAX, "integer"),
    "suffix": const(""),
}
EMBEDDING: dict[str, Schema] = COMMON | {
    "input": texts(INPUTS_MAX),
    "encoding_format": one_of(("float", "base64")),
    "dimensions": between(1, DIMENSIONS_MAX, "integer"),
}
TOKENIZE: dict[str, Schema] = {
    "model": STRING,
    "prompt": STRING,
    "messages": array(MESSAGE, minItems=1),
    "tools": TOOLS,
    "add_generation_prompt": BOOLEAN,
    "add_special_tokens": BOOLEAN,
    "return_token_strs": BOOLEAN,
}
DETOKENIZE: dict[str, Schema] = {"model": STRING, "tokens": array(TOKEN_ID)}
QUOTE: dict[str, Schema] = {"url": STRING, "body": ANYTHING}


def body(properties: dict[str, Schema], *required: str) -> Schema:
    """Closed: what is not known is refused. What is not required may be null."""
    fields = {k: v if k in required else maybe(v) for k, v in properties.items()}
    return objects(fields, *(fields.keys() - set(required)), closed=True)


BODIES: dict[str, Schema] = {
    "/v1/chat/completions": body(CHAT, "model", "messages"),
    "/v1/completions": body(COMPLETION, "model", "prompt"),
    "/v1/embeddings": body(EMBEDDING, "model", "input"),
    "/v1/responses": body(response_shapes.BODY, "model", "input"),
    "/v1/messages": body(message_shapes.BODY, "model", "messages", "max_tokens"),
    "/v1/messages/count_tokens": body(message_shapes.COUNT_BODY, "model", "messages"),
    "/v1/quote": body(QUOTE, "url", "body"),
    "/v1/tokenize": body(TOKENIZE, "model"),
    "/v1/detokenize": body(DETOKENIZE, "model", "tokens"),
}

_ASKED = [{"role": "user", "content": "Tell me a story about a fox."}]
_CHAT = {"model": "sluice-small", "messages": _ASKED, "max_tokens": 16}
EXAMPLES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": _CHAT,
    "/v1/completions": {"model": "sluice-small", "prompt": "The fox", "max_tokens": 16},
    "/v1/embeddings": {"model": "minilm", "input": ["a fox", "a bear"]},
    "/v1/responses": {"model": "sluice-small", "input": "Tell me a story about a fox."},
    "/v1/messages": _CHAT,
    "/v1/messages/count_tokens": {"model": "sluice-small", "messages": _ASKED},
    "/v1/quote": {"url": "/v1/chat/completions", "body": _CHAT},
    "/v1/tokenize": {"model": "sluice-small", "prompt": "The fox"},
    "/v1/detokenize": {"model": "sluice-small", "tokens": [1, 2, 3]},
}
"""One body of each that is answered, for whoever reads the description."""
