"""The routes of a worker that generates, for conversations and for plain prompts. A call is
admitted with all its sequences or with none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import partial

from workers.deployments.bodies import (
    ChatBody,
    CompletionBody,
    GeneratingBody,
    TokenIds,
    decoded,
    generation_requests,
)
from workers.deployments.calls import OpenCalls
from workers.deployments.calls_made import CallReaders
from workers.deployments.choices import ChoiceFrame, Choices, Tally
from workers.deployments.errors import refusal
from workers.deployments.events import calling_event, choice_event
from workers.deployments.exchange import Doors, Exchange
from workers.deployments.prompts import inline_or_in_thread, token_ids, written_characters
from workers.engines.base import (
    Chat,
    Engine,
    EngineError,
    FrameStream,
    GenerationRequest,
    PromptInvalid,
    Text,
)
from workers.engines.forms import Constraint

Event = Callable[[ChoiceFrame], bytes]

CHOICES_MAX = 128
"""OpenAI's bound on `n`; here on all the sequences of a call."""


class GeneratingDoors:
    def __init__(
        self, engine: Engine, *, chat: Chat, text: Text, choices_max: int = CHOICES_MAX
    ) -> None:
        self._engine = engine
        self._chat = chat
        self._text = text
        self._choices_max = choices_max

    @property
    def routes(self) -> Doors:
        return {
            "/v1/chat/completions": self.chat_completions,
            "/v1/completions": self.completions,
        }

    async def chat_completions(self, exchange: Exchange, calls: OpenCalls) -> None:
        raw = await exchange.body()
        body = decoded(raw, ChatBody)
        calls.refuse()
        guide = body.guide()
        try:
            prompt = await inline_or_in_thread(
                len(raw),
                lambda: self._chat.prompt_token_ids(body.messages, body.offered, body.rendering),
            )
            if (bound := body.bound(self._engine.context_tokens)) is not None:
                prompt = bound.cut(prompt)
            constraint = None if guide is None else await self._engine.constrain(guide)
        except EngineError as error:
            raise refusal(error, "messages") from error
        event: Event = choice_event
        if guide is not None and guide.tools:
            readers = CallReaders(body.sluice.request_id, free=guide.answer is None)
            event = partial(calling_event, readers)
        await self._answer(exchange, calls, body, [prompt], "messages", constraint, event)

    async def completions(self, exchange: Exchange, calls: OpenCalls) -> None:
        body = decoded(await exchange.body(), CompletionBody)
        calls.refuse()
        guide, bound = body.guide(), body.bound(self._engine.context_tokens)
        prompts = await inline_or_in_thread(
            written_characters(body.prompt), lambda: token_ids(body.prompt, self._text, bound)
        )
        try:
            constraint = None if guide is None else await self._engine.constrain(guide)
        except EngineError as error:
            raise refusal(error, "prompt") from error
        await self._answer(exchange, calls, body, prompts, "prompt", constraint)

    async def _answer(
        self,
        exchange: Exchange,
        calls: OpenCalls,
        body: GeneratingBody,
        prompts: Sequence[TokenIds],
        prompt_param: str,
        constraint: Constraint | None = None,
        event: Event = choice_event,
    ) -> None:
        requests = generation_requests(
            body, prompts, choices_max=self._choices_max, constraint=constraint
        )
        calls.refuse(body.sluice.request_id)
        try:
            if not requests:
                raise PromptInvalid("there is no prompt, or the answer is over already")
            streams = self._admitted(requests)
        except EngineError as error:
            raise refusal(error, prompt_param) from error
        tally = Tally(body.n, body.sluice.resume)
        with calls.open(body.sluice.request_id, body.sluice.tier) as call:
            async with aclosing(Choices(streams, tally)) as choices:
                await exchange.stream(
                    choices, call.beginning(event), on_gone=lambda: self._abort(requests.values())
                )

    def _admitted(self, requests: Mapping[int, GenerationRequest]) -> dict[int, FrameStream]:
        """The admitted sequences. Raises EngineError, and nothing is admitted then."""
        streams: dict[int, FrameStream] = {}
        try:
            for index, request in requests.items():
                streams[index] = self._engine.generate(request)
        except EngineError:
            self._abort([requests[index] for index in streams])
            raise
        return streams

    def _abort(self, requests: Iterable[GenerationRequest]) -> None:
        for request in requests:
            self._engine.abort(request.request_id)
