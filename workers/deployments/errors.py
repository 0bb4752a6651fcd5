"""Refusals and failures as OpenAI's error objects."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from workers.engines.base import (
    ContextLengthExceeded,
    EngineAsleep,
    EngineError,
    EngineOverloaded,
    GenerationAborted,
    GuideInvalid,
    PromptInvalid,
    RequestInFlight,
    UnsupportedParameter,
)

DRAINING = "worker_draining"
"""A gateway goes elsewhere with such a call, and counts no failure."""


@dataclass(eq=False)
class HttpError(Exception):
    """A refusal in OpenAI's error shape."""

    status: int
    code: str
    message: str
    param: str | None = None

    def body(self) -> bytes:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {
            "message": self.message,
            "type": kind,
            "param": self.param,
            "code": self.code,
        }
        return msgspec.json.encode({"error": error})


def refusal(error: EngineError, prompt_param: str | None = None) -> HttpError:
    """The refusal for an engine's error. `prompt_param` is the field that holds the call's
    prompt."""
    message = str(error)
    match error:
        case ContextLengthExceeded():
            return HttpError(400, "context_length_exceeded", message, prompt_param)
        case PromptInvalid():
            return HttpError(400, "invalid_prompt", message, prompt_param)
        case UnsupportedParameter():
            return HttpError(400, "unsupported_parameter", message, error.param)
        case GuideInvalid():
            return HttpError(400, _of_schema(error.param), message, error.param)
        case RequestInFlight():
            return HttpError(409, "request_in_flight", f"{message} is already being answered")
        case EngineAsleep():
            return HttpError(503, DRAINING, message)
        case EngineOverloaded():
            return HttpError(503, "server_is_overloaded", message)
        case GenerationAborted():
            return HttpError(500, "generation_aborted", f"{message} was aborted")
        case _:
            return HttpError(500, "engine_failed", message)


def _of_schema(param: str) -> str:
    """The error code for a wrong schema. OpenAI has one code for arguments and one for answers."""
    tools = param.startswith("tools")
    return "invalid_function_parameters" if tools else "invalid_json_schema"
