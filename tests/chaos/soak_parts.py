"""The two ends of a soak: callers who hear, and a server outside that says what the plan says."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import aiohttp

from billing.money import nanousd
from gateway.upstream import fake
from tests.chaos.soak_plan import Ending, SoakCall, Tenant, Try, call_of, named_call

ANSWERED_WITHIN_S = 40.0
"""Longer than any call may take; a caller who waited so long has left."""
ASKS_MAX = 8
"""How often a call with a key is sent again."""
AGAIN_S_MAX = 2.0
LEAVES_WITHIN_S = 0.3
NAMES = re.compile(r"\b\S*[0-9]\S*\b")
"""Ids, amounts and instants, which are of one call."""
PAUSE_S = 2.0
"""Of a caller, between two calls, at most."""


# --- the server outside --------------------------------------------------------------------------


@dataclass
class Outside:
    """`harm` is what it does to everybody, whatever the plan says of their calls."""

    seed: int
    harm: Try | None = None
    tries: Counter[str] = field(default_factory=Counter)
    server: fake.FakeUpstream = field(init=False)

    def __post_init__(self) -> None:
        self.server = fake.FakeUpstream(self._say)

    def _say(self, request: fake.Request) -> fake.Script:
        self.server.requests.clear()  # an hour of prompts
        if self.harm is not None:
            return harmful(self.harm)
        name = request.body["messages"][0]["content"].partition(" ")[0]
        wanted = named_call(self.seed, name)
        place = self.tries[name]
        self.tries[name] += 1
        if place < len(wanted.tries):
            return harmful(wanted.tries[place])
        return streamed(wanted) if request.body.get("stream") else document(wanted)


def harmful(kind: Try) -> fake.Script:
    match kind:
        case Try.REFUSED:
            return fake.refusal(503, {"message": "full"}, (("retry-after", "1"),))
        case Try.BROKEN:
            return fake.refusal(500, {"message": "broken"})
        case Try.RESET:
            return fake.Script([fake.Reset()])
        case Try.NONSENSE:
            return fake.Script([fake.Send(b"data: {not json\n\n"), fake.Close()])
    return fake.Script([fake.Stall()])


def streamed(wanted: SoakCall) -> fake.Script:
    """Piece by piece; a cut one ends in one of four ways."""
    is_cut = wanted.ending is Ending.CUT
    acts: list[fake.Act] = []
    for _ in range(wanted.ends_after if is_cut else wanted.frames):
        acts += [fake.Pause(wanted.pause_s), fake.Send(fake.plain_frame("word "))]
    if is_cut:
        cuts: list[list[fake.Act]] = [
            [fake.Reset()],
            [fake.Close()],
            [fake.Stall()],
            [fake.Send(b"data: {not json\n\n"), fake.Close()],
        ]
        return fake.Script([*acts, *cuts[wanted.prompt_bytes // 32 % len(cuts)]])
    last = fake.plain_frame(finish="stop")
    if wanted.reported is not None:
        last += fake.plain_usage(*wanted.reported, wanted.cached)
    return fake.Script([*acts, fake.Send(last + fake.DONE)])


def document(wanted: SoakCall) -> fake.Script:
    assert wanted.reported is not None
    usage = fake.usage_document(*wanted.reported, wanted.cached)
    whole = fake.plain_document(["word " * wanted.frames], usage)
    pause = fake.Pause(wanted.frames * wanted.pause_s)
    if wanted.ending is not Ending.CUT:
        return fake.Script([pause, *whole.acts], headers=whole.headers)
    (sent,) = whole.acts
    assert isinstance(sent, fake.Send)
    half = fake.Send(sent.data[: len(sent.data) // 2])
    return fake.Script([pause, half, fake.Reset()], headers=whole.headers)


# --- callers -------------------------------------------------------------------------------------


@dataclass
class Heard:
    """What the client of one try of a call heard, and when, by the clock of the test."""

    gateway: int
    sent_s: float
    rid: str = ""
    frames: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    ended_s: float = 0.0
    told_nanousd: int | None = None
    """Of a whole answer: what it was told that it costs."""
    failed: tuple[int, str, str] | None = None
    """Status, code and message."""
    left: bool = False
    lost: str = ""
    """Why nothing, or nothing more, was heard."""

    @property
    def is_whole(self) -> bool:
        return self.told_nanousd is not None

    @property
    def outcome(self) -> str:
        if self.is_whole:
            return "answered"
        if self.failed:
            status, code, message = self.failed
            return f"{status} {code}: {NAMES.sub('...', message)}"
        return "left" if self.left else self.lost


@dataclass
class Callers:
    """All clients of a soak, each with a key of its tenant; `heard` is by the name of the call."""

    seed: int
    session: aiohttp.ClientSession
    url: Callable[[int], str]
    pause_s: float = PAUSE_S
    secrets: dict[str, str] = field(default_factory=dict)
    heard: dict[str, list[Heard]] = field(default_factory=dict)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def whole(self) -> int:
        return sum(any(each.is_whole for each in tries) for tries in self.heard.values())

    async def call_on(self, tenant: Tenant, caller: int) -> None:
        """Until stopped."""
        rng = Random(f"{self.seed} {tenant.name} {caller}")
        number = 0
        while not self.stopping.is_set():
            await self.one(call_of(self.seed, tenant, caller, number), rng)
            number += 1
            await asyncio.sleep(rng.uniform(0, self.pause_s))

    async def one(self, wanted: SoakCall, rng: Random) -> None:
        """With a key it is asked again, of the other gateway, until somebody knows the end."""
        tries = self.heard[wanted.name] = []
        for place in range(ASKS_MAX if wanted.keyed else 1):
            heard = Heard((wanted.gateway + place) % 2, time.time())
            tries.append(heard)
            await self._ask(wanted, heard, rng)
            heard.ended_s = time.time()
            is_over = heard.is_whole or heard.left
            if is_over or (heard.failed and heard.failed[0] < 500) or self.stopping.is_set():
                return
            await asyncio.sleep(rng.uniform(0, AGAIN_S_MAX))

    async def _ask(self, wanted: SoakCall, heard: Heard, rng: Random) -> None:
        leaves_s = ANSWERED_WITHIN_S
        if wanted.ending is Ending.LEFT and not (wanted.stream or wanted.keyed):
            leaves_s = rng.uniform(0, LEAVES_WITHIN_S)
        try:
            async with asyncio.timeout(leaves_s):
                await self._post(wanted, heard)
        except TimeoutError:
            heard.left = leaves_s < ANSWERED_WITHIN_S
            heard.lost = "" if heard.left else "silent"
        except aiohttp.ClientConnectorError:
            heard.lost = "gateway away"
        except (aiohttp.ClientError, OSError):
            heard.lost = "gateway lost"

    async def _post(self, wanted: SoakCall, heard: Heard) -> None:
        sent = {
            "model": wanted.model,
            "messages": [{"role": "user", "content": wanted.prompt}],
            "max_tokens": wanted.most,
        }
        if wanted.stream:
            sent |= {"stream": True, "stream_options": {"include_usage": True}}
        named = {"authorization": f"Bearer {self.secrets[wanted.tenant]}"}
        if wanted.keyed:
            named["idempotency-key"] = wanted.name
        url = f"{self.url(heard.gateway)}/v1/chat/completions"
        async with self.session.post(url, json=sent, headers=named) as response:
            heard.rid = response.headers.get("x-request-id", "")
            if response.status != 200:
                refused = (await response.json())["error"]
                heard.failed = response.status, str(refused["code"]), refused["message"]
            elif wanted.stream:
                await self._listen(wanted, heard, response)
            else:
                answer = await response.json()
                heard.told_nanousd = nanousd(str(answer["usage"]["cost"]))

    async def _listen(
        self, wanted: SoakCall, heard: Heard, response: aiohttp.ClientResponse
    ) -> None:
        """To the end, or as far as the client stays."""
        cost: int | None = None
        async for line in response.content:
            if line.startswith(b"data: [DONE]"):
                heard.told_nanousd = cost
                return
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            if "error" in event:
                broken = event["error"]
                heard.failed = response.status, str(broken["code"]), broken["message"]
                return
            if event.get("usage"):
                cost = nanousd(str(event["usage"]["cost"]))
            if any(choice["delta"].get("content") for choice in event["choices"]):
                heard.frames += 1
                heard.last_s = time.time()
                heard.first_s = heard.first_s or heard.last_s
            is_leaving = wanted.ending is Ending.LEFT and not wanted.keyed
            if is_leaving and heard.frames >= wanted.ends_after:
                heard.left = True
                response.close()
                return
        heard.lost = "gateway lost"
