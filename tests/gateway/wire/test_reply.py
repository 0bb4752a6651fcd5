"""The caller's side of one call, while it waits and when it is cancelled."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.types import SettledCall, Usage
from gateway.call.frame import Choice, Frame
from gateway.call.open_call import OpenCall
from gateway.call.request import Streaming
from gateway.wire.answer import StreamableForm
from gateway.wire.anthropic.form import MessageForm
from gateway.wire.bodies.chat import ChatForm
from gateway.wire.bodies.completions import CompletionForm
from gateway.wire.reply import Exchange, Reply, ReplySettings, StreamReply, WholeReply
from gateway.wire.responses.form import ResponseForm
from routing.types import Candidate, CapacityClass, Tier
from tests.billing.calls import opened_call, settled_call

SERVING = Candidate(
    pool="tale-spot",
    model="tale",
    variant="fp16",
    capacity_class=CapacityClass.SPOT,
    tier=Tier.FLEX,
    eligible=True,
    score_nanousd=0,
    cost_nanousd=0,
    wait_s=8.0,
    reason="ready in about 8 s",
)


class Charged:
    """As much of an open call as replies look at."""

    rates: ClassVar[dict[object, object]] = {}
    usage = Usage(input=3, output=2)

    class charge:
        amount_nanousd = 4250

    def settled(self) -> SettledCall:
        cost = self.charge.amount_nanousd
        return settled_call(opened_call(), cost, input=3, cached_input=0, output=2)


async def _note(_: OpenCall) -> str:
    return "waiting"


async def test_cancellation_while_the_keep_alive_is_stopped_is_never_lost() -> None:
    """At whatever turn of the loop a client leaves, its call ends."""

    async def send(_: dict[str, Any]) -> None:
        await asyncio.sleep(0)

    class Waiting:
        rates: ClassVar[dict[object, object]] = {}

    async def call() -> None:
        reply = StreamReply(
            Exchange("req_1", 0.0, lambda: 0.0, send),
            streaming=Streaming(ChatForm(1, scored=False), includes_usage=False),
            choices=1,
            settings=ReplySettings(commit_after_s=0.0, keep_alive_every_s=0.0),
            queue_note=_note,
        )
        async with reply.keeping_alive(cast(OpenCall, Waiting())):
            await asyncio.sleep(0)
        await asyncio.Event().wait()

    for turns in range(12):
        running = asyncio.create_task(call())
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running}, timeout=5)
        assert running.cancelled(), f"the cancellation at turn {turns} was lost"


async def test_every_chunk_of_a_stream_that_waited_has_a_choice_unless_usage_was_asked_for() -> (
    None
):
    """Clients write `chunk.choices[0]`, as OpenAI's own examples do."""
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    call = cast(OpenCall, Charged())
    reply = StreamReply(
        Exchange("req_1", 0.0, lambda: 0.0, send),
        streaming=Streaming(ChatForm(1, scored=False), includes_usage=False),
        choices=1,
        settings=ReplySettings(commit_after_s=0.0, keep_alive_every_s=60.0),
        queue_note=_note,
    )
    async with reply.keeping_alive(call):
        while len(sent) < 2:  # the headers and a comment have left  # noqa: ASYNC110
            await asyncio.sleep(0)
    await reply.begin(call, SERVING)
    await reply.forward(Frame((Choice(delta={"content": "Once"}, finish_reason="stop"),)))
    await reply.finish(call)
    lines = b"".join(message.get("body", b"") for message in sent).decode().split("\n\n")
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    chunks = [json.loads(event) for event in events[:-1]]
    assert events[-1] == "[DONE]"
    assert all(chunk["choices"] for chunk in chunks)
    assert chunks[0]["sluice"] == {"pool": "tale-spot", "tier": "flex"}
    receipt = {"pool": "tale-spot", "tier": "flex", "cost": "0.00000425"}
    assert chunks[-1]["sluice"] == receipt, "the headers had left, so the last chunk says it"


MESSAGE = {"role", "content", "refusal", "annotations", "reasoning_content"}
pieces = st.builds(
    Choice,
    index=st.integers(0, 2),
    delta=st.sampled_from(
        [
            {},
            {"content": "a"},
            {"content": "b "},
            {"content": None, "reasoning_content": "hm", "reasoning": "hm"},
            {"content": "c", "reasoning": "so", "reasoning_details": [{}]},
            {"refusal": "no"},
        ]
    ),
    finish_reason=st.sampled_from([None, None, "stop", "length"]),
)


@given(seen=st.lists(pieces), is_chat=st.booleans(), echo=st.sampled_from(["", "Once "]))
def test_stream_and_whole_answer_say_the_same_and_every_choice_ends_once(
    seen: list[Choice], is_chat: bool, echo: str
) -> None:
    """However pieces of three choices come, repeated ends included, and wherever money ends it."""
    form = ChatForm(3, scored=False) if is_chat else CompletionForm((echo,) * 3, scored=False)
    sent: dict[str, list[bytes]] = {"whole": [], "stream": []}

    def exchange(name: str) -> Exchange:
        async def send(message: dict[str, Any]) -> None:
            sent[name].append(message.get("body", b""))

        return Exchange("req_1", 0.0, lambda: 0.0, send)

    async def answer(reply: Reply) -> None:
        call = cast(OpenCall, Charged())
        await reply.begin(call, SERVING)
        for piece in seen:
            await reply.forward(Frame((piece,)))
        await reply.stop_early("budget_exhausted")
        await reply.finish(call)

    streaming = Streaming(form, includes_usage=False)
    asyncio.run(answer(WholeReply(exchange("whole"), form=form, choices=3)))
    asyncio.run(
        answer(
            StreamReply(
                exchange("stream"),
                streaming=streaming,
                choices=3,
                settings=ReplySettings(),
                queue_note=_note,
            )
        )
    )
    whole = json.loads(b"".join(sent["whole"]))["choices"]
    *events, done = b"".join(sent["stream"]).decode().split("\n\n")[:-1]
    assert done == "data: [DONE]"
    found = [json.loads(event.removeprefix("data: "))["choices"][0] for event in events]
    for choice in whole:
        said = [piece for piece in found if piece["index"] == choice["index"]]
        text = "".join(p["delta"].get("content", "") if is_chat else p["text"] for p in said)
        assert text == ((choice["message"]["content"] or "") if is_chat else choice["text"])
        assert choice.get("message", {}).keys() <= MESSAGE
        for field in ("reasoning_content", "refusal") if is_chat else ():
            told = "".join(piece["delta"].get(field) or "" for piece in said)
            assert told == (choice["message"].get(field) or "")
        ends = [piece["finish_reason"] for piece in said]
        assert [end for end in ends if end] == [ends[-1]] == [choice["finish_reason"]]


SIMULATED: dict[str, StreamableForm] = {
    "chat": ChatForm(1, scored=False),
    "completions": CompletionForm(("",), scored=False),
    "responses": ResponseForm({"model": "tale", "input": "Tell."}, scored=False),
    "messages": MessageForm(stops=()),
}


@pytest.mark.parametrize("dialect", SIMULATED)
async def test_answer_of_a_simulated_pool_says_so_whole_and_streamed(dialect: str) -> None:
    form, call = SIMULATED[dialect], cast(OpenCall, Charged())
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    exchange = Exchange("req_1", 0.0, lambda: 0.0, send)
    whole = WholeReply(exchange, form=form, choices=1)
    stream = StreamReply(
        exchange,
        streaming=Streaming(form, includes_usage=False),
        choices=1,
        settings=ReplySettings(),
        queue_note=_note,
    )
    for reply, simulated in ((whole, True), (whole, False), (stream, True), (stream, False)):
        sent.clear()
        serving = SERVING._replace(is_simulated=simulated)
        await reply.begin(call, serving)
        await reply.forward(Frame((Choice(delta={"content": "Once"}, finish_reason="stop"),)))
        await reply.finish(call)
        headers = dict(sent[0]["headers"])
        assert headers.get(b"x-sluice-simulated") == (b"true" if simulated else None)
        body = b"".join(message.get("body", b"") for message in sent)
        assert (b'"simulated":true' in body) is simulated, body
        if reply is whole:
            assert json.loads(body).get("sluice") == ({"simulated": True} if simulated else None)
        reply.start_over()
        stream.is_committed = False
