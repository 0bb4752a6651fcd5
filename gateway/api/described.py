"""The routes that call a model, as `/openapi.json` tells of them: raw ASGI tells nothing of itself.

What a body may say is read off the checks it must pass, so the two cannot differ.
"""

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI

from gateway.wire import chat, completions, embeddings

ERROR = {
    "description": "OpenAI's error object",
    "content": {
        "application/json": {
            "schema": {
                "type": "object",
                "required": ["error"],
                "properties": {"error": {"$ref": "#/components/schemas/ApiError"}},
            }
        }
    },
}
API_ERROR = {
    "type": "object",
    "required": ["message", "type", "param", "code"],
    "properties": {
        "message": {"type": "string"},
        "type": {"type": "string"},
        "param": {"type": ["string", "null"]},
        "code": {"type": ["string", "null"]},
    },
}


class DescribedApi(FastAPI):
    """FastAPI with the routes that it does not know."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            schema = super().openapi()
            schema["paths"] = PATHS | schema["paths"]
            schema.setdefault("components", {}).setdefault("schemas", {})["ApiError"] = API_ERROR
        return self.openapi_schema or {}


def _path(
    summary: str, body: Iterable[str], required: tuple[str, ...], *, streams: bool
) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": list(required),
        "properties": {name: {} for name in body},
        "additionalProperties": False,
    }
    answers: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    if streams:
        answers["text/event-stream"] = {"schema": {"type": "string"}}
    operation = {
        "tags": ["public"],
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "200": {"description": "In OpenAI's shape", "content": answers},
            "4XX": ERROR,
            "5XX": ERROR,
        },
    }
    return {"post": operation}


PATHS: dict[str, Any] = {
    "/v1/chat/completions": _path(
        "Answer a conversation", chat.CHECKS, ("model", "messages"), streams=True
    ),
    "/v1/completions": _path(
        "Go on with a text", completions.CHECKS, ("model", "prompt"), streams=True
    ),
    "/v1/embeddings": _path(
        "Place texts in a vector space", embeddings.CHECKS, ("model", "input"), streams=False
    ),
}
