"""The meter: a pure state machine that turns observed frames into usage and timings.

Guards law 4's half at the edge: what is charged is what arrived here in frames. An own worker
says in each frame how much the call has used so far; a plain upstream says it once at the end, and
until then each piece of text counts as one token.
"""

from billing.types import Usage
from gateway.frame import Frame

STOPPED = "stop"


class Meter:
    """Observes one attempt's frames, of `choices` answers. Times are seconds on the gateway's
    clock."""

    def __init__(self, prompt_tokens: int, choices: int = 1) -> None:
        self._prompt_tokens = prompt_tokens
        self._choices = choices
        self._reported: Usage | None = None
        self._texts = 0
        self._reasons: dict[int, str] = {}
        self.frames = 0
        self.busy_us = 0
        """The share of its replica's time, as far as the replica said."""
        self.first_token_s: float | None = None

    def observe(self, frame: Frame, now_s: float) -> None:
        self.frames += 1
        if frame.usage is not None:
            self._reported = frame.usage
            self.busy_us = frame.busy_us
        for choice in frame.choices:
            has_text = choice.has_text
            self._texts += has_text
            if self.first_token_s is None and (has_text or choice.embedding):
                self.first_token_s = now_s
            if choice.finish_reason is not None:
                self._reasons[choice.index] = choice.finish_reason

    def output_with(self, frame: Frame) -> int:
        """Output tokens once this frame is counted too; of a complete answer, what it has."""
        if frame.usage is not None and not self.is_complete:
            return frame.usage.completion
        counted = self._texts if self._reported is None else self._reported.completion
        return counted if self.is_complete else counted + frame.texts

    @property
    def is_complete(self) -> bool:
        """Every choice has finished."""
        return len(self._reasons) == self._choices

    @property
    def finish_reason(self) -> str | None:
        """Once complete; of several choices, the first reason that is not the ordinary one."""
        if not self.is_complete:
            return None
        reasons = [self._reasons[index] for index in sorted(self._reasons)]
        return next((reason for reason in reasons if reason != STOPPED), STOPPED)

    @property
    def usage(self) -> Usage:
        """Tokens of the frames received so far, by disjoint class; nothing before the first."""
        if self._reported is not None:
            return self._reported
        if self.frames == 0:
            return Usage(input=0, cached_input=0, output=0)
        return Usage(input=self._prompt_tokens, cached_input=0, output=self._texts)
