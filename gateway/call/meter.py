"""The meter: a pure state machine that turns observed frames into usage and timings.

Guards law 4's half at the edge: what is counted is what arrived here in frames. An own worker
says in each frame how much the call has used so far; a plain upstream says it once at the end, and
until then each piece of text counts as one token. What a server reports is not bounded here: the
charge is bounded by what is held (`gateway/call/open_call.py`), our cost by nothing.
"""

from msgspec.structs import replace

from billing.types import COMPLETION, Usage
from gateway.call.frame import Frame

STOPPED = "stop"


class Meter:
    """Observes one attempt's frames, of `choices` answers. Times are seconds on the gateway's
    clock."""

    def __init__(self, prompt_tokens: int, choices: int = 1) -> None:
        self._choices = choices
        self._counted = Usage(input=prompt_tokens)
        self._reported: Usage | None = None
        self._most: Usage | None = None
        self._texts = 0
        self._reasons: dict[int, str] = {}
        self.frames = 0
        self.busy_us = 0
        """The share of its replica's time, as far as the replica said."""
        self.first_token_s: float | None = None

    def observe(self, frame: Frame, now_s: float) -> None:
        self.frames += 1
        reasons = self._reasons
        for choice in frame.choices:
            has_text = choice.has_text
            if not reasons or choice.index not in reasons:
                self._texts += has_text
            if self.first_token_s is None and (has_text or choice.is_whole):
                self.first_token_s = now_s
            if choice.finish_reason is not None:
                reasons[choice.index] = choice.finish_reason
        if frame.usage is not None:
            self.overhear(frame)
            self._reported = frame.usage
            self._texts = 0

    def overhear(self, frame: Frame) -> None:
        """Of a frame that is not taken, too: what it reports was used is our cost."""
        if frame.usage is not None:
            self.busy_us = frame.busy_us
            self._most = frame.usage if self._most is None else _larger(self._most, frame.usage)

    @property
    def is_reported(self) -> bool:
        """The server has said what was used."""
        return self._reported is not None

    @property
    def output(self) -> int:
        """Output tokens so far."""
        reported = 0 if self._reported is None else self._reported.completion
        return reported + self._texts

    def output_with(self, frame: Frame) -> int:
        """Output tokens once this frame is observed too."""
        if frame.usage is not None:
            return frame.usage.completion
        return self.output + self._texts_of(frame)

    def _texts_of(self, frame: Frame) -> int:
        """What comes after the end of a choice says nothing new."""
        if not self._reasons and len(frame.choices) == 1:  # as most have
            return frame.choices[0].has_text
        ends, texts = set(self._reasons), 0
        for choice in frame.choices:
            texts += choice.has_text and choice.index not in ends
            if choice.finish_reason is not None:
                ends.add(choice.index)
        return texts

    def has_finished(self, index: int) -> bool:
        return index in self._reasons

    @property
    def is_complete(self) -> bool:
        """Every choice has finished."""
        return len(self._reasons) == self._choices

    def completes_with(self, frame: Frame) -> bool:
        """Every choice has finished, or does with this frame."""
        ends = {choice.index for choice in frame.choices if choice.finish_reason is not None}
        return len(ends | set(self._reasons)) == self._choices

    @property
    def finish_reason(self) -> str | None:
        """Once complete; of several choices, the first reason that is not the ordinary one."""
        if not self.is_complete:
            return None
        reasons = [self._reasons[index] for index in sorted(self._reasons)]
        return next((reason for reason in reasons if reason != STOPPED), STOPPED)

    @property
    def usage(self) -> Usage:
        """Tokens of the frames received so far, by disjoint class; nothing before the first: what
        was last reported, and the pieces of text since."""
        if self.frames == 0:
            return _NOTHING
        so_far = self._reported or self._counted
        if not self._texts:
            return so_far
        return so_far + Usage(output=self._texts)

    @property
    def reported(self) -> Usage:
        """What it cost us: the usage, or where the server has ever reported more, that."""
        return self.usage if self._most is None else _larger(self._most, self.usage)


def _larger(one: Usage, other: Usage) -> Usage:
    """Of two reports the larger prompt and the larger completion."""
    if (
        other.output >= one.output
        and other.input >= one.input
        and other.cached_input >= one.cached_input
        and other.reasoning >= one.reasoning
        and other.cache_write >= one.cache_write
        and other.units >= one.units
    ):  # as reports do that are cumulative
        return other
    prompt = one if one.prompt > other.prompt else other
    completion = one if one.completion > other.completion else other
    of_completion = {name: getattr(completion, name) for name in COMPLETION}
    return replace(prompt, **of_completion, units=max(one.units, other.units))


_NOTHING = Usage()
