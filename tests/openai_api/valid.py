"""Whether an answer of ours is one that OpenAI's OpenAPI document knows.

Beside what the document has only the fields of EXTENSIONS may be there. Responses and their events
are built of overlapping pieces in the document, so there any further field passes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from tests.openai_api.extract import FILE

EXTENSIONS: dict[str, tuple[str, ...]] = {
    "ChatCompletionResponseMessage": ("reasoning_content",),
    "ChatCompletionStreamResponseDelta": ("reasoning_content",),
    "CompletionUsage": ("cost",),
    "CreateChatCompletionResponse": ("sluice",),
    "CreateChatCompletionStreamResponse": ("sluice",),
    "CreateCompletionResponse": ("sluice", "service_tier"),
    "CreateEmbeddingResponse": ("usage.cost",),
    "ImageGenUsage": ("cost",),
    "Model": (
        *("task", "context_length", "max_output_tokens", "pricing"),
        *("supported_parameters", "tiers", "capabilities", "simulated"),
    ),
}
"""Our own words: what a call cost, where it was served, what a model is for, and what one outside
thought before it answered, in the field that everybody but OpenAI has for it."""
SIMULATED = {"const": {"simulated": True}}
"""All that a whole answer says under `sluice`; a stream has more there."""
CLOSED = (
    "CreateChatCompletionResponse",
    "CreateChatCompletionStreamResponse",
    "CreateCompletionResponse",
    "CreateEmbeddingResponse",
    "ImagesResponse",
    "ListModelsResponse",
    "ErrorResponse",
)
WHOLE = {
    "/v1/chat/completions": "CreateChatCompletionResponse",
    "/v1/completions": "CreateCompletionResponse",
    "/v1/embeddings": "CreateEmbeddingResponse",
    "/v1/images/generations": "ImagesResponse",
    "/v1/images/edits": "ImagesResponse",
    "/v1/models": "ListModelsResponse",
    "/v1/responses": "Response",
    "/v1/organization/usage/completions": "UsageResponse",
    "/v1/organization/usage/embeddings": "UsageResponse",
    "/v1/organization/usage/images": "UsageResponse",
    "/v1/organization/costs": "UsageResponse",
}
CHUNKS = {
    "/v1/chat/completions": "CreateChatCompletionStreamResponse",
    "/v1/completions": "CreateCompletionResponse",
    "/v1/responses": "ResponseStreamEvent",
}
ANTHROPIC = "/v1/messages"
OPENED = ("/health", "/livez", "/readyz", "/console", "/docs", "/openapi.json")


def wrong(name: str, document: Any) -> list[str]:
    """Every way in which a document is not the component `name`, with its place."""
    found = sorted(_validator(name).iter_errors(document), key=lambda e: list(map(str, e.path)))
    return [f"{'.'.join(map(str, e.absolute_path)) or name}: {e.message[:150]}" for e in found]


def assert_valid(name: str, document: Any) -> None:
    assert not (mistakes := wrong(name, document)), "\n".join([name, *mistakes])


def assert_answer(path: str, status: int, content_type: str, body: bytes) -> None:
    """An answer of the API, whatever it is, is what the document says of it.

    Anthropic's shapes, and what only we have, are held to other descriptions elsewhere.
    """
    if not path.startswith("/v1/") and status < 400:
        return
    if path.startswith((ANTHROPIC, *OPENED)) or not body:
        return
    if status >= 400:
        assert content_type.startswith("application/json"), (path, status, content_type)
        assert_valid("ErrorResponse", json.loads(body))
    elif content_type.startswith("application/json") and path in WHOLE:
        assert_valid(WHOLE[path], json.loads(body))
    elif content_type.startswith("application/json") and path.startswith("/v1/models/"):
        assert_valid("Model", json.loads(body))
    elif content_type.startswith("text/event-stream") and path in CHUNKS:
        lines = body.decode().splitlines()
        assert_events(path, [line[6:] for line in lines if line.startswith("data: ")])


def assert_events(path: str, payloads: Iterable[str]) -> None:
    """The events of one stream: chunks, or the error that it ends with."""
    for payload in payloads:
        if payload == "[DONE]" or payload.startswith(":"):
            continue
        event = json.loads(payload)
        is_error = event.keys() == {"error"}
        assert_valid("ErrorResponse" if is_error else CHUNKS[path], event)


@cache
def _validator(name: str) -> Draft202012Validator:
    schemas = _schemas()
    root = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": schemas}}
    return Draft202012Validator(root)


@cache
def _schemas() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(FILE).read_text())["components"]["schemas"]
    found = {name: _modern(schema) for name, schema in found.items()}
    for name, fields in EXTENSIONS.items():
        for field in fields:
            place = found[name]
            *outer, last = field.split(".")
            for step in outer:
                place = place["properties"][step]
            place["properties"][last] = {}
    found["CreateChatCompletionResponse"]["properties"]["sluice"] = SIMULATED
    _differ_where_openai_does(found)
    for name in CLOSED:
        _close(found, found[name])
    return found


def _modern(told: Any) -> Any:
    """`nullable` is of an older OpenAPI, and no JSON Schema knows it."""
    if isinstance(told, list):
        return [_modern(part) for part in told]
    if not isinstance(told, dict):
        return told
    inner = {k: _modern(v) for k, v in told.items() if k != "nullable"}
    return {"anyOf": [inner, {"type": "null"}]} if told.get("nullable") is True else inner


def _differ_where_openai_does(found: dict[str, Any]) -> None:
    """What OpenAI's own servers send, and what its clients read, and the document does not have.

    Chunks of text completions have the shape of whole ones: all but the last of them say null for
    `finish_reason`, and for `usage` where it is asked for. A response has no usage before its end.
    The first token of a prompt has no log probability. Vectors in base64 are strings.
    """
    whole = found["CreateCompletionResponse"]["properties"]
    whole["usage"] = {"anyOf": [whole["usage"], {"type": "null"}]}
    choice = found["CreateCompletionResponse"]["properties"]["choices"]["items"]["properties"]
    choice["finish_reason"] = {"anyOf": [choice["finish_reason"], {"type": "null"}]}
    scores = choice["logprobs"]["anyOf"][0]["properties"]
    for field in ("token_logprobs", "top_logprobs"):
        scores[field]["items"] = {"anyOf": [scores[field]["items"], {"type": "null"}]}
    for part in found["Response"]["allOf"]:
        if "usage" in (fields := part.get("properties", {})):
            fields["usage"] = {"anyOf": [fields["usage"], {"type": "null"}]}
    vector = found["Embedding"]["properties"]
    vector["embedding"] = {"anyOf": [vector["embedding"], {"type": "string"}]}


def _close(schemas: dict[str, Any], told: Any, seen: frozenset[int] = frozenset()) -> None:
    """Nothing but what is named, here and in everything that is referred to."""
    if isinstance(told, list):
        for part in told:
            _close(schemas, part, seen)
    if not isinstance(told, dict) or id(told) in seen:
        return
    seen |= {id(told)}
    if "properties" in told and "allOf" not in told:
        told.setdefault("additionalProperties", False)
    if isinstance(told.get("$ref"), str):
        _close(schemas, schemas[told["$ref"].rpartition("/")[2]], seen)
    for part in told.values():
        _close(schemas, part, seen)
