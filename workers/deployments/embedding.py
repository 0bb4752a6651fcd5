"""The routes of a worker that embeds."""

from __future__ import annotations

from contextlib import aclosing

from workers.deployments.bodies import EmbeddingBody, decoded
from workers.deployments.calls import OpenCalls
from workers.deployments.errors import refusal
from workers.deployments.events import embedding_event
from workers.deployments.exchange import Doors, Exchange
from workers.deployments.prompts import inline_or_in_thread, token_ids, written_characters
from workers.engines.base import EmbeddingEngine, EmbeddingRequest, EngineError, Text


class EmbeddingDoors:
    def __init__(self, engine: EmbeddingEngine, *, text: Text) -> None:
        self._engine = engine
        self._text = text

    @property
    def routes(self) -> Doors:
        return {"/v1/embeddings": self.embeddings}

    async def embeddings(self, exchange: Exchange, calls: OpenCalls) -> None:
        body = decoded(await exchange.body(), EmbeddingBody)
        calls.refuse()
        bound = body.bound(self._engine.context_tokens)
        inputs = await inline_or_in_thread(
            written_characters(body.input), lambda: token_ids(body.input, self._text, bound)
        )
        call_id = body.sluice.request_id
        calls.refuse(call_id)
        try:
            stream = self._engine.embed(EmbeddingRequest(call_id, tuple(inputs), body.dimensions))
        except EngineError as error:
            raise refusal(error, "input") from error
        with calls.open(call_id, body.sluice.tier) as call:
            async with aclosing(stream):
                await exchange.stream(
                    stream,
                    call.beginning(embedding_event),
                    on_gone=lambda: self._engine.abort(call_id),
                )
