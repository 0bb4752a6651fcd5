"""The API as `/openapi.json` tells of it: every route, what it takes, what it answers.

FastAPI knows the parameters, the answers and most bodies; bodies read by hand, errors, keys and the
routes in raw ASGI are added here.
"""

from asyncio import to_thread
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from gateway.api.openapi.bodies import BODIES, EXAMPLES, FORMS
from gateway.api.openapi.generated_answers import GENERATED_ANSWERS, GENERATED_COMPONENTS
from gateway.uploads.form import MULTIPART
from gateway.wire.json_schema import STRING, Schema, maybe, objects, reference_to

JSON, SOUND = "application/json", "audio/*"
EVENT: Schema = {"description": "Server-sent events, each with a document as its `data`"}
LIVE = ("/healthz", "/livez", "/health")
OPEN = (*LIVE, "/readyz")
"""These ask for no key."""
ADMINISTERED = ("/admin/", "/metrics", "/v1/organization/")
READING = {
    "400": "What was asked for is wrong, and `param` says where",
    "401": "The key is missing or wrong",
    "500": "A mistake of ours",
    "503": "What answers this is away; `retry-after` says when to come again",
}
GUESSED = {"429": "Too many wrong keys came from this address"}
FREE = {"429": "More calls that are free were made than may be"}
FREE_ROUTES = (
    *("/v1/quote", "/v1/tokenize", "/v1/detokenize"),
    *("/v1/messages/count_tokens", "/v1/responses/input_tokens"),
)
NAMING = {"404": "It is not there, or not for this key"}
WRITING = NAMING | {
    "408": "The body came too slowly",
    "409": "It contradicts what is there",
    "413": "The body is too large",
    "415": "The body is not JSON",
}
TENANT = {"403": "The organization is frozen, or the key may not do this"}
GENERATING = {
    "402": "The money is gone, and the organization has chosen this status for it",
    "410": "The answer under this idempotency key is not kept",
    "422": "The idempotency key was used with another body",
    "429": "A limit is reached, and `retry-after` says when it is not, or the money is gone",
    "502": "The model was lost in the middle of its answer",
    "504": "The deadline passed before the answer began",
}
MAYBE_NOT_THERE = ("/v1/organization/", "/admin/v1/offers", "/admin/v1/quality/active")
E_INVOICE = {"409": "It is a draft, or lacks what an e-invoice needs, and the message says what"}
FETCHING = {"502": "The hub did not give the weights", "507": "The weights cannot be kept"}
OWN = "/v1/organization/invoices"
"""A tenant's alone: the administrator has `/admin/v1/invoices`."""
SECURITY: dict[str, Schema] = {
    "key": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of a project, `sk-sluice-...`",
    },
    "x-api-key": {
        "type": "apiKey",
        "in": "header",
        "name": "x-api-key",
        "description": "The same key, as Anthropic's clients send it",
    },
    "admin": {"type": "http", "scheme": "bearer", "description": "The admin key"},
}
KEYED = (
    "With an `Idempotency-Key` (1 to 255 printable ASCII characters) the call runs once, and sent "
    "again with the same body it is told the same answer, with `idempotent-replayed: true`."
)
ERRORS: dict[str, Schema] = {
    "ApiError": objects(
        {
            **{"message": STRING, "type": STRING, "param": maybe(STRING), "code": maybe(STRING)},
            "errors": {"type": "array", "items": reference_to("MistakeAnswer")},
        },
        "errors",
    ),
    "ErrorResponse": objects({"error": reference_to("ApiError")}),
}
ANSWER_HEADERS = {
    "x-request-id": {"schema": STRING, "required": True},
    "openai-processing-ms": {"schema": STRING, "required": True},
}


class DescribedApi(FastAPI):
    """FastAPI with the routes that it does not know; a URL is right or wrong, never redirected."""

    def __init__(self, lifespan: Callable[[Any], Any]) -> None:
        self._describes = Lock()
        super().__init__(
            title="Sluice",
            version="0.1.0",
            description="Models behind OpenAI's and Anthropic's APIs, metered and routed.",
            lifespan=lifespan,
            docs_url=None,
            redoc_url=None,
            redirect_slashes=False,
        )

    def setup(self) -> None:
        async def openapi(_request: Request) -> Response:
            return JSONResponse(await to_thread(self.openapi))

        self.add_route("/openapi.json", openapi, include_in_schema=False)

    def openapi(self) -> dict[str, Any]:
        """Made once, which takes more than a second. So an event loop asks for it in a thread. One
        makes it, and the others wait for it: FastAPI shows what it has before it is completed."""
        with self._describes:
            if self.openapi_schema is None:
                self.openapi_schema = _completed(super().openapi())
            return self.openapi_schema


def _completed(schema: dict[str, Any]) -> dict[str, Any]:
    schema["paths"] = {path: _generating(path) for path in GENERATED_ANSWERS} | schema["paths"]
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            _complete(method, path, operation)
    components = schema.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    _name_by_title(schema)
    schemas.update(ERRORS | GENERATED_COMPONENTS)
    components["securitySchemes"] = SECURITY
    return schema


def _name_by_title(schema: dict[str, Any]) -> None:
    """A page of prices is `Page_PriceVersion_` to FastAPI, `PriceVersionPage` by its title."""
    schemas: dict[str, Schema] = schema["components"]["schemas"]
    titles = {name: schemas[name]["title"] for name in schemas if name.endswith("_")}
    references = {
        reference_to(name)["$ref"]: reference_to(title)["$ref"] for name, title in titles.items()
    }
    for name, title in titles.items():
        schemas[title] = schemas.pop(name)
    _refer_to(references, schema)


def _refer_to(references: Mapping[str, str], part: Any) -> None:
    if isinstance(part, list):
        for each in part:
            _refer_to(references, each)
    elif isinstance(part, dict):
        for name, value in part.items():
            if name == "$ref":
                part[name] = references.get(value, value)
            else:
                _refer_to(references, value)


def _generating(path: str) -> dict[str, Any]:
    answer = GENERATED_ANSWERS[path]
    content: dict[str, Any] = {SOUND: {"schema": STRING | {"format": "binary"}}}
    if answer.whole is not None:
        content = {JSON: {"schema": reference_to(answer.whole)}}
    if answer.streams:
        content["text/event-stream"] = {"schema": EVENT}
    if answer.may_be_text:
        content["text/plain"] = {"schema": STRING}
    return {
        "post": {
            "tags": ["public"],
            "summary": answer.summary,
            "operationId": path.removeprefix("/v1/").replace("/", "_"),
            "description": KEYED,
            "responses": {"200": {"description": "The answer", "content": content}},
        }
    }


def _complete(method: str, path: str, operation: dict[str, Any]) -> None:
    responses: dict[str, Any] = operation["responses"]
    responses.pop("422", None)
    for status, response in responses.items():
        if status.startswith("2"):
            _tell_answer(path, response)
    if path in BODIES:
        media = MULTIPART if path in FORMS else JSON
        content = {media: {"schema": BODIES[path], "example": EXAMPLES[path]}}
        operation["requestBody"] = {"required": True, "content": content}
    for status, description in _errors(method, path).items():
        responses.setdefault(status, _error(path, status, description))
    if path not in OPEN:
        operation["security"] = _security(path)


def _tell_answer(path: str, response: dict[str, Any]) -> None:
    response["headers"] = ANSWER_HEADERS
    if path == "/metrics":
        response["content"] = {"text/plain": {"schema": STRING}}


def _errors(method: str, path: str) -> Mapping[str, str]:
    if path in LIVE:
        return {"500": READING["500"]}
    if path == "/readyz":
        return {"500": READING["500"], "503": "Not ready, and `checks` says why"}
    errors = READING | (WRITING if method in ("post", "put", "patch", "delete") else {})
    errors |= NAMING if "{" in path or path.startswith(MAYBE_NOT_THERE) else {}
    errors |= {} if path.startswith("/admin/") else TENANT
    errors |= GUESSED if path.startswith(ADMINISTERED) else {}
    errors |= E_INVOICE if path.endswith(".xml") else {}
    errors |= FREE if path in FREE_ROUTES else {}
    errors |= GENERATING if path in GENERATED_ANSWERS else {}
    return errors | (FETCHING if path == "/admin/v1/models/apply" else {})


def _error(path: str, status: str, description: str) -> dict[str, Any]:
    kind = "MessageError" if path.startswith("/v1/messages") else "ErrorResponse"
    if (path, status) == ("/readyz", "503"):
        kind = "Readiness"
    return {
        "description": description,
        "headers": ANSWER_HEADERS,
        "content": {JSON: {"schema": reference_to(kind)}},
    }


def _security(path: str) -> list[dict[str, list[str]]]:
    if path.startswith("/admin/") or path == "/metrics":
        return [{"admin": []}]
    if path.startswith("/v1/organization/") and not path.startswith(OWN):
        return [{"key": []}, {"admin": []}]
    return [{"key": []}, {"x-api-key": []}] if path.startswith("/v1/messages") else [{"key": []}]
