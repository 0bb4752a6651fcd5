"""The meter: a pure state machine that turns observed frames into usage and timings.

Guards law 4's half at the edge: what is charged is what arrived here in frames. An own worker
says in each frame how much it has used so far; a plain upstream says it once at the end, and
until then each content delta counts as one token.
"""

from dataclasses import dataclass

from billing.types import Usage


@dataclass(frozen=True, slots=True)
class Frame:
    """One event of an answer, as the adapters hand it on.

    `delta` is OpenAI's, untouched. `usage` is cumulative and None where the upstream does not
    say; `position` is the number of output tokens so far, None likewise.
    """

    delta: dict[str, object]
    finish_reason: str | None = None
    usage: Usage | None = None
    position: int | None = None


class Meter:
    """Observes one attempt's frames. Times are seconds on the gateway's clock."""

    def __init__(self, prompt_tokens: int) -> None:
        self._prompt_tokens = prompt_tokens
        self._reported: Usage | None = None
        self._deltas = 0
        self.frames = 0
        self.first_token_s: float | None = None
        self.finish_reason: str | None = None

    def observe(self, frame: Frame, now_s: float) -> None:
        self.frames += 1
        if frame.usage is not None:
            self._reported = frame.usage
        if frame.delta.get("content"):
            self._deltas += 1
            if self.first_token_s is None:
                self.first_token_s = now_s
        if frame.finish_reason is not None:
            self.finish_reason = frame.finish_reason

    def output_with(self, frame: Frame) -> int:
        """Output tokens once this frame is counted too; of a complete answer, what it has."""
        if self.finish_reason is not None:
            return self.usage.output
        if frame.usage is not None:
            return frame.usage.output
        return self.usage.output + bool(frame.delta.get("content"))

    @property
    def usage(self) -> Usage:
        """Tokens of the frames received so far, by disjoint class; nothing before the first."""
        if self._reported is not None:
            return self._reported
        if self.frames == 0:
            return Usage(input=0, cached_input=0, output=0)
        return Usage(input=self._prompt_tokens, cached_input=0, output=self._deltas)
