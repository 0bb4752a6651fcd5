"""Every error of every route in OpenAI's shape: unknown URLs, bad bodies, crashes."""

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from gateway.api.not_offered import reason_for
from gateway.errors import ApiError, bad_request, internal_error

log = logging.getLogger(__name__)


def install_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _crash)


def error_response(error: ApiError) -> Response:
    return Response(
        error.body(),
        status_code=error.status,
        headers=error.headers(),
        media_type="application/json",
    )


async def _api_error(_request: Request, error: Any) -> Response:
    return error_response(error)


async def _validation(_request: Request, error: Any) -> Response:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return error_response(bad_request(f"The body is not JSON: {first['ctx']['error']}."))
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
    reason = first["msg"].removeprefix("Value error, ")
    return error_response(bad_request(f"{place or 'body'}: {reason}", place or None))


async def _http(request: Request, error: Any) -> Response:
    code = None
    if error.status_code == 404 and (reason := reason_for(request.url.path)):
        message, code = reason, "not_offered"
    elif error.status_code == 404:
        message = f"Invalid URL ({request.method} {request.url.path})"
    elif error.status_code == 405:
        message = f"Not allowed to {request.method} on {request.url.path}."
    else:
        message = str(error.detail)
    response = error_response(ApiError(error.status_code, message, code=code))
    response.headers.update(error.headers or {})
    return response


async def _crash(_request: Request, error: Exception) -> Response:
    log.error("a request failed unexpectedly", exc_info=error)
    return error_response(internal_error())
