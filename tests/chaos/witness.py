"""An independent auditor: it calls as a tenant does, remembers what it was given, and says
afterwards what the ledger may have charged for it.

It knows nothing of holds, spools or streams. For each call it knows the request id, how many
tokens it received, whether the answer was whole, and (asking the same seeded question again on a
quiet stack) how many tokens there were to generate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import openai

from billing.spool.segments import SpoolLineKind, read_lines, segments
from billing.types import decode_checkpoint
from tests.stack import Stack, Tenant

LOOK_EVERY_S = 0.005
LOOKS_MAX = 12_000
HEAT = 2.0
"""So hot that these small models seldom end by themselves: streams long enough to be cut."""


@dataclass
class Seen:
    """One call from its caller's side."""

    question: dict[str, Any]
    request_id: str | None = None
    deltas: int = 0
    text: str = ""
    arguments: str = ""
    """Of its calls of tools. One chunk may have text and arguments, and no order of the two."""
    usage: Any = None
    error: Exception | None = None

    @property
    def is_whole(self) -> bool:
        return self.usage is not None

    @property
    def is_over(self) -> bool:
        return self.is_whole or self.error is not None


@dataclass
class Witness:
    stack: Stack
    tenant: Tenant
    rng: Random
    seen: list[Seen] = field(default_factory=list)

    def question(self, model: str = "sluice-large", tokens_max: int = 200) -> dict[str, Any]:
        """A seeded call: asked again it gives the same answer."""
        number = self.rng.randrange(10**9)
        message = {"role": "user", "content": f"Tell me a story about fox number {number}."}
        return {
            "model": model,
            "messages": [message],
            "max_tokens": tokens_max,
            "temperature": HEAT,
            "seed": number,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    async def call(self, question: dict[str, Any]) -> Seen:
        """Ask once, without retries, and remember; a broken connection is an answer too."""
        seen = Seen(question)
        self.seen.append(seen)
        client = self.stack.async_openai(self.tenant.secret)
        try:
            raw = await client.chat.completions.with_raw_response.create(**question)
            seen.request_id = raw.headers["x-request-id"]
            async for chunk in raw.parse():
                text, arguments = said_in(chunk)
                seen.deltas += bool(text or arguments)
                seen.text += text
                seen.arguments += arguments
                seen.usage = chunk.usage or seen.usage
        except (openai.APIError, openai.APIConnectionError) as error:
            seen.error = error
        except Exception as error:  # the transport's own, when the peer is killed
            seen.error = error
        finally:
            await client.close()
        return seen

    async def break_while_streaming(self, calls: int, after: int, harm: Callable[[], Any]) -> None:
        """Start streams, do harm once most have given `after` deltas, and see each to its end."""
        tasks = [asyncio.create_task(self.call(self.question())) for _ in range(calls)]
        await asyncio.sleep(0)
        fresh = self.seen[-calls:]
        for _ in range(LOOKS_MAX):
            await asyncio.sleep(LOOK_EVERY_S)
            if sum(seen.deltas >= after for seen in fresh) * 2 > calls:
                break
        await asyncio.to_thread(harm)
        await asyncio.wait_for(asyncio.gather(*tasks), timeout=90)

    # --- what must hold afterwards ---------------------------------------------------------------

    def assert_ledger_agrees(self) -> list[dict[str, Any]]:
        """Every call this witness knows by id has one event, and its net charge is in bounds."""
        self.stack.wait_takes_calls()
        self.stack.wait_quiet(60.0)
        known = [seen for seen in self.seen if seen.request_id]
        cut = [seen for seen in known if not seen.is_whole]
        with self.stack.openai(self.tenant.secret) as client, ThreadPoolExecutor() as at_once:
            lengths = at_once.map(partial(would_be, client), cut)
            whole = dict(zip((seen.request_id for seen in cut), lengths, strict=True))
        return [self._assert_call(seen, whole.get(seen.request_id, 0)) for seen in known]

    def _assert_call(self, seen: Seen, whole_tokens: int) -> dict[str, Any]:
        assert seen.request_id
        record = self.stack.generation(seen.request_id)
        output = record["usage"]["output"]
        if seen.is_whole:
            assert record["status"] == "answered"
            assert record["usage_source"] == "exact"
            assert output == seen.usage.completion_tokens
            assert record["cost_usd"] == seen.usage.cost
        else:
            assert record["status"] in ("failed", "cancelled", "refused"), record
            assert output >= last_checkpoint(self.stack.data / "spool", seen.request_id)
            assert output <= whole_tokens
        assert net_usd(record) == record["cost_usd"]
        return record

    def assert_nothing_is_missing(self) -> None:
        """What the spools say was admitted for this tenant is exactly what the ledger has."""
        admitted = opened_for(self.stack.data / "spool", self.tenant.organization)

        def booked() -> list[str]:
            return sorted(call["id"] for call in self.stack.requests_of(self.tenant))

        self.stack.wait_until(lambda: booked() == sorted(admitted), 60, booked)


def said_in(chunk: Any) -> tuple[str, str]:
    """The text of one chunk, and the arguments of its calls of tools."""
    deltas = [choice.delta for choice in chunk.choices]
    calls = [call for delta in deltas for call in delta.tool_calls or ()]
    texts = [delta.content or "" for delta in deltas]
    return "".join(texts), "".join([call.function.arguments or "" for call in calls])


def would_be(client: openai.OpenAI, seen: Seen) -> int:
    """How many tokens the whole answer has: the same seeded question, asked in peace."""
    question = {k: v for k, v in seen.question.items() if not k.startswith("stream")}
    tokens: int = client.chat.completions.create(**question).usage.completion_tokens
    return tokens


def net_usd(record: dict[str, Any]) -> str:
    """Charges less reversals of one call, as the wire writes money."""
    from billing.money import nanousd, usd

    signs = {"charge": 1, "reversal": -1}
    return usd(sum(signs[t["kind"]] * nanousd(t["amount_usd"]) for t in record["transfers"]))


def last_checkpoint(spool: Path, request_id: str) -> int:
    """Output tokens of the call's last checkpoint in the gateways' spools, 0 without one."""
    return max(
        (
            decode_checkpoint(bytes(line.p)).output
            for line in _lines(spool)
            if line.k is SpoolLineKind.CHECKPOINT and line.r == request_id
        ),
        default=0,
    )


def opened_for(spool: Path, organization: str) -> set[str]:
    """Request ids that the spools say were admitted for one organization."""
    mark = f'"org":"{organization}"'.encode()
    return {
        line.r for line in _lines(spool) if line.k is SpoolLineKind.OPENED and mark in bytes(line.p)
    }


def _lines(spool: Path) -> Any:
    for gateway in sorted(spool.iterdir()):
        for segment in segments(spool, gateway.name):
            yield from read_lines(segment)
