"""Every error of every route in OpenAI's shape, or Anthropic's below `/v1/messages`: unknown URLs,
bad bodies, crashes.

What is no HTTP at all (a broken request line, a chunk without a length) never gets here: it is
refused in the same words by `gateway/server/heads.py`, and the connection closed.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from redis.exceptions import ConnectionError as RedisAway
from redis.exceptions import TimeoutError as RedisSlow
from sqlalchemy.exc import OperationalError as DatabaseAway
from starlette.exceptions import HTTPException
from starlette.routing import Match

from gateway.api.not_offered import reason_for
from gateway.call.rate_headers import identity
from gateway.errors import ApiError, bad_request, internal_error, overloaded
from gateway.wire.anthropic.dialect import ANTHROPIC, VERSION
from gateway.wire.dialect import OPENAI, Dialect
from routing.types import Clock

log = logging.getLogger(__name__)

AWAY = (DatabaseAway, RedisAway, RedisSlow)
AWAY_S = 1.0
METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")
MESSAGES, MODELS = "/v1/messages/", "/v1/models/"

Handler = Callable[[Request, Exception], Awaitable[Response]]


def install_error_handlers(app: FastAPI, new_id: Callable[[str], str], clock: Clock) -> None:
    """`new_id` and `clock` name the answers that middleware does not: those to crashes, which are
    made outside of it, and Anthropic's, which say their name in the body too."""

    def answering(error_of: Callable[[Request, Any], ApiError]) -> Handler:
        async def answer(request: Request, error: Exception) -> Response:
            dialect = _dialect(request)
            now_s = clock()
            identity_headers = {} if dialect is OPENAI else identity(new_id("req"), now_s, now_s)
            return error_response(error_of(request, error), dialect, identity_headers, now_s)

        return answer

    app.add_exception_handler(ApiError, answering(lambda _, error: error))
    app.add_exception_handler(RequestValidationError, answering(_validation))
    app.add_exception_handler(HTTPException, answering(_http))
    for away in AWAY:
        app.add_exception_handler(away, answering(_away))
    app.add_exception_handler(Exception, _crashes(new_id, clock))


def _dialect(request: Request) -> Dialect:
    path = f"{request.url.path}/"
    lists_models = path.startswith(MODELS) and VERSION in request.headers
    return ANTHROPIC if path.startswith(MESSAGES) or lists_models else OPENAI


def error_response(
    error: ApiError, dialect: Dialect, headers: Mapping[str, str], now_s: float
) -> Response:
    return Response(
        dialect.refusal(error, headers.get("x-request-id", "")),
        status_code=error.status,
        headers=dialect.headers({**headers, **error.headers()}, now_s),
        media_type="application/json",
    )


def _validation(_request: Request, error: Any) -> ApiError:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return bad_request(f"The body is not JSON: {first['ctx']['error']}.")
    kind, *inside = first["loc"]
    loc = inside if kind in ("body", "query", "path") else first["loc"]
    place = ".".join(map(str, loc))
    reason = first["msg"].removeprefix("Value error, ")
    return bad_request(f"{place or 'body'}: {reason}", place or None)


def _http(request: Request, error: Any) -> ApiError:
    if isinstance(cause := error.__cause__, ApiError):
        return cause  # met while FastAPI read the body, which it calls unreadable
    if error.status_code == 404:
        return _unknown_url(request)
    if error.status_code == 405:
        return _wrong_method(request)
    return ApiError(error.status_code, str(error.detail), extra_headers=error.headers)


def _away(_request: Request, error: Any) -> ApiError:
    log.warning("what a request needs is away: %s", type(error).__name__)
    return overloaded("What answers this is away for now.", AWAY_S)


def _unknown_url(request: Request) -> ApiError:
    path = request.url.path
    if reason := reason_for(path):
        return ApiError(404, reason, code="not_offered")
    return ApiError(404, f"Invalid URL ({request.method} {path})")


def _wrong_method(request: Request) -> ApiError:
    return ApiError(
        405,
        f"Not allowed to {request.method} on {request.url.path}.",
        code="method_not_allowed",
        extra_headers={"allow": ", ".join(_allowed(request))},
    )


def _allowed(request: Request) -> list[str]:
    """What a URL takes, over all routes that share it; one that is described by its own name is
    not taken for a parameter of another. What is read may be asked for its head alone."""
    taken = {method: params for method in METHODS for params in _matches(request, method)}
    named = {method for method, params in taken.items() if not params}
    methods = named or set(taken)
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


def _matches(request: Request, method: str) -> Iterator[Mapping[str, Any]]:
    """The parameters of each route that takes a method; a route by its own name comes last."""
    matches = [
        route.matches({**request.scope, "method": method, "path_params": {}})
        for route in request.app.router.routes
    ]
    params = [scope.get("path_params", {}) for match, scope in matches if match is Match.FULL]
    yield from sorted(params, key=len, reverse=True)


def _crashes(new_id: Callable[[str], str], clock: Clock) -> Handler:
    async def crash(request: Request, error: Exception) -> Response:
        request_id, now_s = new_id("req"), clock()
        log.error("request %s failed unexpectedly", request_id, exc_info=error)
        headers = identity(request_id, now_s, now_s)
        return error_response(internal_error(), _dialect(request), headers, now_s)

    return crash
