"""Workers that all say the same, from the token that they are asked to go on from. They die or
pause where a test says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.upstream import fake

PROMPT = 10
BUSY_US = 100
"""What a token takes of a replica, also one of a prompt or one that is computed again."""


@dataclass(frozen=True, slots=True)
class Said:
    """A frame of an answer: `text` of the choice `index`, of so many tokens."""

    index: int
    text: str
    tokens: int


Numbered = tuple[Said, list[int]]


@dataclass
class Pause:
    """Behind so many frames of the whole answer, until it is `over`."""

    frames: int
    over: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Speaker:
    """`deaths` are after how many frames each attempt dies, in turn; then none does. `pauses` are
    after how many frames each attempt pauses until its event in `paused` is set: it says all of the
    rest then, whoever still listens."""

    frames: Sequence[Said]
    deaths: deque[int] = field(default_factory=deque)
    pauses: deque[int] = field(default_factory=deque)
    paused: list[Pause] = field(default_factory=list)
    resumes: list[dict[str, Any] | None] = field(default_factory=list)
    dies_by: Sequence[fake.Act] = (fake.Close(),)
    refusal: fake.Script | None = None
    """What whoever is asked to go on says instead."""

    @property
    def choices(self) -> int:
        return max(frame.index for frame in self.frames) + 1

    def __call__(self, request: fake.Request) -> fake.Script:
        resume = request.body["sluice"].get("resume")
        self.resumes.append(resume)
        if resume is not None and self.refusal is not None:
            return self.refusal
        skipped = [0] * self.choices
        if resume is not None:
            assert (resume["input"], resume["cached_input"]) == (PROMPT - 4, 4)
            skipped = [self._checked(n, each) for n, each in enumerate(resume["choices"])]
        return self._script(skipped)

    def _checked(self, index: int, choice: dict[str, Any]) -> int:
        """How many frames of a choice have arrived: these, with just these ids."""
        own = [ids for said, ids in self._numbered() if said.index == index]
        came = choice["frames"]
        assert came == own[: len(came)], "what arrived is what was sent"
        assert choice["finished"] == (len(came) == len(own))
        return len(came)

    def _numbered(self) -> list[Numbered]:
        ids = iter(range(100, 100_000))
        return [(said, [next(ids) for _ in range(said.tokens)]) for said in self.frames]

    def _script(self, skipped: Sequence[int]) -> fake.Script:
        came, left = self._split(skipped)
        output = sum(said.tokens for said, _ in came)
        events = []
        for said, ids in left:
            output += said.tokens
            computed = PROMPT + output
            event = fake.own_frame(
                said.text,
                output,
                prompt=PROMPT,
                cached=4,
                finish="stop" if (said, ids) == self._last(said.index) else None,
                index=said.index,
                busy_us=BUSY_US * computed,
                token_ids=ids,
            )
            events.append(event)
        if self.pauses:
            said, rest = events[: self.pauses.popleft()], events
            pause = Pause(sum(skipped) + len(said))
            self.paused.append(pause)
            late = [fake.Send(event) for event in (*rest[len(said) :], fake.DONE)]
            return fake.stream(*said, then=[fake.Wait(pause.over), *late])
        if self.deaths:
            return fake.stream(*events[: self.deaths.popleft()], then=self.dies_by)
        return fake.stream(*events, fake.DONE)

    def _split(self, skipped: Sequence[int]) -> tuple[list[Numbered], list[Numbered]]:
        """The frames that have arrived, and the others."""
        unseen, came, left = list(skipped), [], []
        for said, ids in self._numbered():
            unseen[said.index] -= 1
            (came if unseen[said.index] >= 0 else left).append((said, ids))
        return came, left

    def _last(self, index: int) -> Numbered:
        return [each for each in self._numbered() if each[0].index == index][-1]


def texts(frames: Sequence[Said]) -> dict[int, str]:
    return {
        index: "".join(said.text for said in frames if said.index == index)
        for index in {said.index for said in frames}
    }
