"""A second answer, read from where a first one was cut. What all of it used is counted for its
attempt; its call is told what is new."""

from collections.abc import Sequence

from gateway.call.frame import Frame
from gateway.call.meter import Meter
from gateway.moves.joint import Joint
from gateway.upstream.openai import OpenAIAnswer
from routing.types import Clock


class JoinedAnswer:
    def __init__(
        self,
        answer: OpenAIAnswer,
        begun: Sequence[Frame],
        meter: Meter,
        joint: Joint,
        clock: Clock,
    ) -> None:
        """`begun` is what has come of it already, and `meter` that of its attempt."""
        self.choices = answer.choices
        self._answer = answer
        self._begun = list(begun)
        self._meter = meter
        self._joint = joint
        self._clock = clock

    @property
    def is_over(self) -> bool:
        return self._answer.is_over and not self._begun

    async def more(self) -> list[Frame]:
        """As of any answer. Raises Cut where it does not begin with what was sent, too."""
        while frames := self._begun or await self._answer.more():
            self._begun = []
            now_s = self._clock()
            for frame in frames:
                self._meter.observe(frame, now_s)
            if new := self._joint.new(frames):
                return new
        return []
