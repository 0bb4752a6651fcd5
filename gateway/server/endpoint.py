"""The routes that call a model, as raw ASGI: read the body, walk the journey, mind the client.

A client that leaves, or does not read, cancels the journey, whose way out settles; under an
idempotency key the journey goes on without it, for whoever comes again. Every request that reaches
this file gets exactly one answer, an error object included (law 1).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from billing.tasks import end
from gateway.api.error_handlers import AWAY, AWAY_S
from gateway.api.media import refuse_other_media
from gateway.call.priced_call import Received
from gateway.call.request import GeneratingRequest
from gateway.errors import ApiError, body_too_large, body_too_slow, internal_error, overloaded
from gateway.idempotency.key import HEADER, Keyed, keyed
from gateway.idempotency.once import Once
from gateway.idempotency.recording import Recording
from gateway.idempotency.replaying import KeyFree
from gateway.idempotency.tape import Player
from gateway.pipeline import DEADLINE_HEADER, Pipeline
from gateway.replicas.placement import SESSION_HEADER
from gateway.server.client import Client, Receive, Send, Watch
from gateway.tenants.auth import Principal
from gateway.uploads.folder import UploadFolder
from gateway.uploads.form import FormRules, UploadedForm, read_form
from gateway.wire.answer import SoundForm
from gateway.wire.dialect import OPENAI, Dialect
from gateway.wire.reply import (
    Exchange,
    QueueNote,
    Reply,
    ReplySettings,
    StreamReply,
    WholeReply,
)
from gateway.wire.sound import SoundReply
from routing.types import Clock

log = logging.getLogger(__name__)

KEY = HEADER.encode()
READ = (
    *("authorization", "x-api-key", "content-type", "content-length"),
    *(DEADLINE_HEADER, SESSION_HEADER, HEADER),
)
_READ = {name.encode(): name for name in READ}
"""Headers that are read: clients send many, for others."""
Parse = Callable[[bytes], GeneratingRequest]
"""What a route makes of a body; raises ApiError 400."""
ParseForm = Callable[[UploadedForm], Awaitable[GeneratingRequest]]
"""The same of a form, which stays the route's to close."""


@dataclass(frozen=True, slots=True)
class Uploads:
    """What a route needs that is sent files; `timeout_s` bounds a slow sender."""

    folder: UploadFolder
    rules: FormRules
    parse: ParseForm
    timeout_s: float


class ClientLeft(Exception):
    """The client closed its side before its body was whole."""


class Generating:
    """The ASGI endpoint of one route: `parse` reads its bodies, or as `uploads` say, `dialect` is
    what its callers speak. `new_id` makes request ids; `body_timeout_s` bounds a slow sender, and
    `slow_reader_timeout_s` one who does not read."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        parse: Parse | Uploads,
        queue_note: QueueNote,
        reply_settings: ReplySettings,
        body_bytes_max: int,
        body_timeout_s: float,
        slow_reader_timeout_s: float,
        once: Once,
        clock: Clock,
        new_id: Callable[[], str],
        note: Callable[[ApiError], None],
        dialect: Dialect = OPENAI,
    ) -> None:
        self._pipeline = pipeline
        self._watch = Watch(slow_reader_timeout_s, clock)
        self._once = once
        self._parse = parse
        self._queue_note = queue_note
        self._reply_settings = reply_settings
        self._body_bytes_max = body_bytes_max
        self._body_timeout_s = body_timeout_s
        self._clock = clock
        self._new_id = new_id
        self._note = note
        self._dialect = dialect

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """What was uploaded is gone with the call, however that ends."""
        forms: list[UploadedForm] = []
        try:
            await self._call(scope, receive, send, forms)
        finally:
            for form in forms:
                form.close()

    async def _call(
        self, scope: dict[str, Any], receive: Receive, send: Send, forms: list[UploadedForm]
    ) -> None:
        client = Client(scope, receive, send, watch=self._watch)
        exchange = Exchange(
            *(self._new_id(), self._clock(), self._clock, client.send, self._dialect),
            at_once=client.has_left,
            piece_at_once=client.piece_has_left,
            abort=client.hang_up,
        )
        headers = _headers(scope)
        try:
            principal = await self._pipeline.authenticate(self._dialect.authorization(headers))
            if isinstance(self._parse, Uploads):
                forms.append(form := await _read_form(client, headers, self._parse))
                request, size = await self._parse.parse(form), form.text_bytes
                body = form.identity()
            else:
                self._check_size(headers)
                refuse_other_media(headers)
                body = await self._read_body(client)
                request, size = self._parse(body), len(body)
            received = Received(exchange.request_id, exchange.arrived_s, headers, request, size)
            if HEADER in headers:
                keys = [value.decode("latin-1") for name, value in scope["headers"] if name == KEY]
                key = keyed(keys, principal, scope["method"], scope["path"], body)
                received_with_key = replace(received, idempotency=key.name)
                await self._run_once(key, principal, received_with_key, exchange, client)
                return
        except ClientLeft:
            return
        except Exception as error:
            await self._refuse(error, exchange, client)
            return
        await self._run(principal, received, self._reply(exchange, request), client)

    async def _run(
        self, principal: Principal, received: Received, reply: Reply, client: Client
    ) -> None:
        """The journey in this very task: a client that departs cancels it."""
        try:
            with client:
                await self._pipeline.journey(principal, received, reply)
        except asyncio.CancelledError:
            if client.departure is None:
                raise
        except Exception as error:
            if client.departure is None:
                await reply.fail(self._failure_of(error))
        finally:
            client.forgive()

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
        deadline_s = self._pipeline.deadline_s(received, principal.leave)

        def left_s() -> float:
            return deadline_s - self._clock()

        while (runner := await self._once.runner(key, received.request_id, left_s)) != (
            received.request_id
        ):
            exchange_of_runner = replace(exchange, request_id=runner)
            if await self._tell_again(key, exchange_of_runner, received, client, left_s):
                return
        async with self._once.recording(key, runner, exchange.send) as recording:
            recorded = replace(exchange, send=recording.send, at_once=None, piece_at_once=None)
            reply = self._reply(recorded, received.request)
            journey = asyncio.create_task(
                self._first_journey(key, principal, received, reply, left_s)
            )
            try:
                if await client.left_before(journey) is not None:
                    recording.leave_client()
                    await asyncio.wait({journey}, timeout=self._once.finish_within_s)
            finally:
                await end(journey)
            await self._answer_failure(journey, reply, recording)

    async def _first_journey(
        self,
        key: Keyed,
        principal: Principal,
        received: Received,
        reply: Reply,
        left_s: Callable[[], float],
    ) -> None:
        """Raises ApiError, also where the ledger knows of a call that ran under the key."""
        await self._once.refuse_if_ran(key, left_s)
        await self._pipeline.journey(principal, received, reply)

    async def _tell_again(
        self,
        key: Keyed,
        exchange: Exchange,
        received: Received,
        client: Client,
        left_s: Callable[[], float],
    ) -> bool:
        """False if there is nothing to tell: the key was given back."""
        player = Player()
        reply = self._reply(exchange, received.request)
        follow = self._once.follow(key, exchange.request_id, player, exchange.send, left_s)
        following = asyncio.create_task(follow)
        try:
            await client.left_before(following)
        finally:
            await end(following)
        if not following.cancelled() and isinstance(following.exception(), KeyFree):
            return False
        reply.is_committed = player.has_begun
        await self._answer_failure(following, reply)
        return True

    def _reply(self, exchange: Exchange, request: GeneratingRequest) -> Reply:
        choices = request.payload.choices
        if isinstance(request.form, SoundForm):
            return SoundReply(exchange, request.form.content_type)
        if request.streaming is None:
            return WholeReply(exchange, form=request.form, choices=choices)
        return StreamReply(
            exchange,
            streaming=request.streaming,
            choices=choices,
            settings=self._reply_settings,
            queue_note=self._queue_note,
        )

    async def _read_body(self, client: Client) -> bytes:
        """The whole body, within its bounds. Raises ApiError 408 or 413."""
        body = client.body_at_once()
        if body is not None:
            if len(body) > self._body_bytes_max:
                raise body_too_large(self._body_bytes_max)
            return body
        try:
            async with asyncio.timeout(self._body_timeout_s):
                return await self._body(client.receive)
        except TimeoutError as slow:
            raise body_too_slow() from slow

    async def _body(self, receive: Receive) -> bytes:
        parts: list[bytes] = []
        room = self._body_bytes_max
        async for piece in _pieces(receive):
            parts.append(piece)
            room -= len(piece)
            if room < 0:
                raise body_too_large(self._body_bytes_max)
        return b"".join(parts)

    def _check_size(self, headers: Mapping[str, str]) -> None:
        """A body that announces too much is refused before any of it is read."""
        announced = headers.get("content-length", "")
        if announced.isdigit() and int(announced) > self._body_bytes_max:
            raise body_too_large(self._body_bytes_max)

    async def _answer_failure(
        self, journey: asyncio.Task[None], reply: Reply, recording: Recording | None = None
    ) -> None:
        """What cost nothing does not keep its idempotency key: it may be tried again."""
        if journey.cancelled():
            return
        error = journey.exception()
        if error is None:
            return
        failure = self._failure_of(error)
        if recording is not None and failure is error and not failure.charged_nanousd:
            recording.release()
        await reply.fail(failure)

    async def _refuse(self, error: Exception, exchange: Exchange, client: Client) -> None:
        """What failed before there was a reply; nothing is added to an answer that has begun."""
        failure = self._failure_of(error)
        if not client.has_begun:
            await exchange.error(failure)

    def _failure_of(self, error: BaseException) -> ApiError:
        failure = _failure_of(error)
        self._note(failure)
        return failure


async def _read_form(client: Client, headers: Mapping[str, str], uploads: Uploads) -> UploadedForm:
    """Raises ApiError, and ClientLeft."""
    try:
        async with asyncio.timeout(uploads.timeout_s):
            pieces = _pieces(client.receive)
            return await read_form(pieces, headers, uploads.folder, uploads.rules)
    except TimeoutError as slow:
        raise body_too_slow() from slow


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    """Of a body, as they come. Raises ClientLeft."""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        yield message.get("body", b"")
        more = message.get("more_body", False)


def _headers(scope: Mapping[str, Any]) -> dict[str, str]:
    raw = scope["headers"]
    return {_READ[name]: value.decode("latin-1") for name, value in raw if name in _READ}


def _failure_of(error: BaseException) -> ApiError:
    """What a caller is told of an error, whichever it was."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, AWAY):
        log.warning("what a call needs is away: %s", type(error).__name__)
        return overloaded("What answers this is away for now.", AWAY_S)
    log.error("a call failed unexpectedly", exc_info=error)
    return internal_error()
