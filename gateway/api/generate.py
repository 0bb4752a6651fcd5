"""The routes that call a model, as raw ASGI: read the body, walk the journey, mind the client.

A client that leaves, or does not read, cancels the journey, whose way out settles; under an
idempotency key the journey goes on without it, for whoever comes again. Every request that reaches
this file gets exactly one answer, an error object included (law 1).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from billing.tasks import end
from gateway.api.client import Client, Receive, Send
from gateway.api.media import refuse_other_media
from gateway.auth import Principal
from gateway.errors import ApiError, internal_error
from gateway.idempotency.key import HEADER, Keyed, keyed
from gateway.idempotency.once import Once
from gateway.idempotency.recording import Recording
from gateway.idempotency.tape import Player
from gateway.pipeline import Pipeline, Received
from gateway.wire.dialect import OPENAI, Dialect
from gateway.wire.reply import (
    Exchange,
    QueueNote,
    Reply,
    ReplySettings,
    StreamReply,
    WholeReply,
)
from gateway.wire.request import GeneratingRequest
from routing.types import Clock

log = logging.getLogger(__name__)

Parse = Callable[[bytes], GeneratingRequest]
"""What a route makes of a body; raises ApiError 400."""


class ClientLeft(Exception):
    """The client closed its side before its body was whole."""


class Generating:
    """The ASGI endpoint of one route: `parse` reads its bodies, `dialect` is what its callers
    speak. `new_id` makes request ids; `body_timeout_s` bounds a slow sender, and
    `slow_reader_timeout_s` one who does not read."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        parse: Parse,
        queue_note: QueueNote,
        reply_settings: ReplySettings,
        body_timeout_s: float,
        slow_reader_timeout_s: float,
        once: Once,
        clock: Clock,
        new_id: Callable[[], str],
        dialect: Dialect = OPENAI,
    ) -> None:
        self._pipeline = pipeline
        self._slow_reader_timeout_s = slow_reader_timeout_s
        self._once = once
        self._parse = parse
        self._queue_note = queue_note
        self._reply_settings = reply_settings
        self._body_timeout_s = body_timeout_s
        self._clock = clock
        self._new_id = new_id
        self._dialect = dialect

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        client = Client(
            scope, receive, send, slow_timeout_s=self._slow_reader_timeout_s, clock=self._clock
        )
        exchange = Exchange(self._new_id(), self._clock(), self._clock, client.send, self._dialect)
        found = _headers(scope)
        try:
            principal = await self._pipeline.authenticate(self._dialect.authorization(found))
            refuse_other_media(found)
            body = await self._read_body(receive)
            request = self._parse(body)
            received = Received(exchange.request_id, exchange.arrived_s, found, request, len(body))
            if HEADER in found:
                key = keyed(found, principal, scope["method"], scope["path"], body)
                await self._run_once(key, principal, received, exchange, client)
                return
        except ApiError as refused:
            await exchange.error(refused)
            return
        except ClientLeft:
            return
        reply = self._reply(exchange, request)
        journey = asyncio.create_task(self._pipeline.journey(principal, received, reply))
        try:
            departure = await client.left_before(journey)
            if departure is not None:
                journey.cancel(departure)
        finally:
            await end(journey)
        await _answer_failure(journey, reply)

    async def _run_once(
        self,
        key: Keyed,
        principal: Principal,
        received: Received,
        exchange: Exchange,
        client: Client,
    ) -> None:
        """Run the call if nobody does under this key; else tell what the one who does is told.

        Raises ApiError before anything was claimed.
        """
        runner = await self._once.runner(key, received.request_id)
        if runner != received.request_id:
            await self._tell_again(key, replace(exchange, request_id=runner), received, client)
            return
        async with self._once.recording(key, runner, exchange.send) as recording:
            reply = self._reply(replace(exchange, send=recording.send), received.request)
            journey = asyncio.create_task(self._pipeline.journey(principal, received, reply))
            try:
                if await client.left_before(journey) is not None:
                    recording.leave_client()
                    await asyncio.wait({journey}, timeout=self._once.finish_within_s)
            finally:
                await end(journey)
            await _answer_failure(journey, reply, recording)

    async def _tell_again(
        self, key: Keyed, exchange: Exchange, received: Received, client: Client
    ) -> None:
        player = Player()
        reply = self._reply(exchange, received.request)
        follow = self._once.follow(key, exchange.request_id, player, exchange.send)
        following = asyncio.create_task(follow)
        try:
            await client.left_before(following)
        finally:
            await end(following)
        reply.is_committed = player.has_begun
        await _answer_failure(following, reply)

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


async def _answer_failure(
    journey: asyncio.Task[None], reply: Reply, recording: Recording | None = None
) -> None:
    """What cost nothing does not keep its idempotency key: it may be tried again."""
    if journey.cancelled():
        return
    error = journey.exception()
    if error is None:
        return
    if not isinstance(error, ApiError):
        log.error("a call failed unexpectedly", exc_info=error)
        error = internal_error()
    elif recording is not None and not error.charged_nanousd:
        recording.release()
    await reply.fail(error)
