"""The routes that call a model, as raw ASGI: read the body, walk the journey, mind the client.

The one place where a client's leaving is noticed: it cancels the journey, whose way out settles.
Every request that reaches this file gets exactly one answer, an error object included (law 1).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from billing.tasks import end
from gateway.api.media import refuse_other_media
from gateway.errors import ApiError, internal_error
from gateway.pipeline import Pipeline, Received
from gateway.wire.dialect import OPENAI, Dialect
from gateway.wire.reply import (
    Exchange,
    QueueNote,
    Reply,
    ReplySettings,
    Send,
    StreamReply,
    WholeReply,
)
from gateway.wire.request import GeneratingRequest
from routing.types import Clock

log = logging.getLogger(__name__)

Receive = Callable[[], Awaitable[dict[str, Any]]]
Parse = Callable[[bytes], GeneratingRequest]
"""What a route makes of a body; raises ApiError 400."""


class ClientLeft(Exception):
    """The client closed its side before its body was whole."""


class Generating:
    """The ASGI endpoint of one route: `parse` reads its bodies, `dialect` is what its callers
    speak. `new_id` makes request ids; `body_timeout_s` bounds a slow sender."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        parse: Parse,
        queue_note: QueueNote,
        reply_settings: ReplySettings,
        body_timeout_s: float,
        clock: Clock,
        new_id: Callable[[], str],
        dialect: Dialect = OPENAI,
    ) -> None:
        self._pipeline = pipeline
        self._parse = parse
        self._queue_note = queue_note
        self._reply_settings = reply_settings
        self._body_timeout_s = body_timeout_s
        self._clock = clock
        self._new_id = new_id
        self._dialect = dialect

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        exchange = Exchange(self._new_id(), self._clock(), self._clock, send, self._dialect)
        found = _headers(scope)
        try:
            principal = await self._pipeline.authenticate(self._dialect.authorization(found))
            refuse_other_media(found)
            body = await self._read_body(receive)
            request = self._parse(body)
        except ApiError as refused:
            await exchange.error(refused)
            return
        except ClientLeft:
            return
        reply = self._reply(exchange, request)
        received = Received(exchange.request_id, exchange.arrived_s, found, request, len(body))
        journey = asyncio.create_task(self._pipeline.journey(principal, received, reply))
        await _until_done_or_gone(journey, receive)
        await _answer_failure(journey, reply)

    def _reply(self, exchange: Exchange, request: GeneratingRequest) -> Reply:
        choices = request.wanted.choices
        if request.streaming is None:
            return WholeReply(exchange, form=request.form, choices=choices)
        return StreamReply(
            exchange,
            streaming=request.streaming,
            choices=choices,
            settings=self._reply_settings,
            queue_note=self._queue_note,
        )

    async def _read_body(self, receive: Receive) -> bytes:
        """The whole body; how large it may be is the middleware's business."""
        try:
            async with asyncio.timeout(self._body_timeout_s):
                return b"".join([part async for part in _body_parts(receive)])
        except TimeoutError as slow:
            raise ApiError(408, "The body of the request came too slowly.") from slow


async def _body_parts(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        yield message.get("body", b"")
        more = message.get("more_body", False)


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


async def _until_done_or_gone(journey: asyncio.Task[None], receive: Receive) -> None:
    """Wait for the journey; a client that leaves first, or a server that stops, cancels it."""
    gone = asyncio.ensure_future(receive())
    try:
        await asyncio.wait({journey, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        await end(journey)


async def _answer_failure(journey: asyncio.Task[None], reply: Reply) -> None:
    if journey.cancelled():
        return
    error = journey.exception()
    if error is None:
        return
    if not isinstance(error, ApiError):
        log.error("a call failed unexpectedly", exc_info=error)
        error = internal_error()
    await reply.fail(error)
