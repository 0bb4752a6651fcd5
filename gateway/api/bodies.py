"""What the routes that read their bodies by hand take, as JSON Schema, by path.

A test holds each to its table of checks: they know the same names.
"""

from typing import Any

from gateway.api import message_shapes, response_shapes
from gateway.api.json_schema import (
    ANYTHING,
    BOOLEAN,
    COUNT,
    STRING,
    Schema,
    array,
    between,
    const,
    either,
    maybe,
    objects,
    one_of,
)
from gateway.wire.checks import CHOICES_MAX, SERVICE_TIERS, STOP_MAX

CHOICES = between(1, CHOICES_MAX, "integer")
TOKENS_MAX = between(1, 2**31, "integer")
IDS = array(COUNT, minItems=1)
TEXTS = either(STRING, array(STRING, minItems=1), IDS, array(IDS, minItems=1))
STRINGS: Schema = {"type": "object", "additionalProperties": STRING, "maxProperties": 16}
PENALTY = between(-2, 2)
TEXT_PART = objects({"type": const("text"), "text": STRING})
IMAGE_PART = objects(
    {"type": const("image_url"), "image_url": objects({"url": STRING, "detail": STRING}, "detail")}
)
FUNCTION = objects(
    {"name": STRING, "description": STRING, "parameters": ANYTHING, "strict": maybe(BOOLEAN)},
    "description",
    "parameters",
    "strict",
)
TOOL = objects({"type": const("function"), "function": FUNCTION})
TOOL_CALL = objects(
    {
        "id": STRING,
        "type": const("function"),
        "function": objects({"name": STRING, "arguments": STRING}),
    }
)
MESSAGE = objects(
    {
        "role": one_of(("system", "developer", "user", "assistant", "tool")),
        "content": maybe(either(STRING, array(either(TEXT_PART, IMAGE_PART)))),
        "name": maybe(STRING),
        "tool_calls": maybe(array(TOOL_CALL)),
        "tool_call_id": maybe(STRING),
        "refusal": maybe(STRING),
        "annotations": maybe(array(ANYTHING, maxItems=0)),
        "reasoning_content": maybe(STRING),
        "provider_specific_fields": maybe(ANYTHING),
    },
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "refusal",
    "annotations",
    "reasoning_content",
    "provider_specific_fields",
)
RESPONSE_FORMAT = either(
    objects({"type": one_of(("text", "json_object"))}),
    objects(
        {
            "type": const("json_schema"),
            "json_schema": objects(
                {
                    "name": STRING,
                    "description": STRING,
                    "schema": ANYTHING,
                    "strict": maybe(BOOLEAN),
                },
                "description",
                "schema",
                "strict",
            ),
        }
    ),
)
TOOL_CHOICE = either(
    one_of(("none", "auto", "required")),
    objects({"type": const("function"), "function": objects({"name": STRING})}),
)
STREAM_OPTIONS = objects(
    {"include_usage": BOOLEAN, "include_obfuscation": const(False)},
    "include_usage",
    "include_obfuscation",
    closed=True,
)

COMMON: dict[str, Schema] = {
    "model": STRING,
    "service_tier": one_of(SERVICE_TIERS),
    "user": STRING,
}
GENERATED: dict[str, Schema] = COMMON | {
    "stream": BOOLEAN,
    "stream_options": STREAM_OPTIONS,
    "max_tokens": TOKENS_MAX,
    "temperature": between(0, 2),
    "top_p": between(0, 1),
    "stop": either(STRING, array(STRING, maxItems=STOP_MAX)),
    "seed": between(-(2**63), 2**63 - 1, "integer"),
    "n": CHOICES,
    "presence_penalty": PENALTY,
    "frequency_penalty": PENALTY,
    "logit_bias": {"type": "object", "additionalProperties": between(-100, 100)},
}
CHAT: dict[str, Schema] = GENERATED | {
    "messages": array(MESSAGE, minItems=1),
    "max_completion_tokens": TOKENS_MAX,
    "logprobs": BOOLEAN,
    "top_logprobs": between(0, 20, "integer"),
    "safety_identifier": STRING,
    "metadata": STRINGS,
    "store": BOOLEAN,
    "response_format": RESPONSE_FORMAT,
    "modalities": array(STRING),
    "tools": array(TOOL),
    "tool_choice": TOOL_CHOICE,
    "parallel_tool_calls": BOOLEAN,
    "functions": array(FUNCTION),
    "function_call": either(STRING, ANYTHING),
    "audio": ANYTHING,
    "prediction": ANYTHING,
    "reasoning_effort": STRING,
    "verbosity": STRING,
    "web_search_options": ANYTHING,
    "prompt_cache_key": STRING,
    "prompt_cache_options": ANYTHING,
    "prompt_cache_retention": STRING,
    "moderation": ANYTHING,
}
COMPLETION: dict[str, Schema] = GENERATED | {
    "prompt": TEXTS,
    "best_of": between(0, 20, "integer"),
    "echo": BOOLEAN,
    "logprobs": between(0, 5, "integer"),
    "suffix": STRING,
}
EMBEDDING: dict[str, Schema] = COMMON | {
    "input": TEXTS,
    "encoding_format": one_of(("float", "base64")),
    "dimensions": between(1, 2**20, "integer"),
}
TOKENIZE: dict[str, Schema] = {
    "model": STRING,
    "prompt": STRING,
    "messages": array(MESSAGE, minItems=1),
    "tools": array(TOOL),
    "add_generation_prompt": BOOLEAN,
    "add_special_tokens": BOOLEAN,
    "return_token_strs": BOOLEAN,
}
DETOKENIZE: dict[str, Schema] = {"model": STRING, "tokens": array(COUNT)}
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
