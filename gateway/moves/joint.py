"""Where a second answer is joined to what a first one said: of the second only what is new goes on.

Text is compared as it streams. Nothing goes on before all that was sent has come again; where the
second says anything else, or ends earlier, it `Differs`. Pure.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from billing.types import Usage
from gateway.call.frame import Choice, Frame
from gateway.moves.said import SentChoice
from gateway.upstream.answer import Differs
from gateway.upstream.fault import Fault

DIFFERS = "this answer did not begin with what was sent of another"


class Joint:
    """`sent` is what the second answer has to say again. `base` is what was delivered before a text
    was continued; None where the second answer says all of it."""

    def __init__(self, sent: Sequence[SentChoice], base: Usage | None = None) -> None:
        self._choices = [_ChoiceJoint(each) for each in sent]
        self._base = base
        self._skipped = 0

    @property
    def is_reached(self) -> bool:
        """All that was sent has come again."""
        return not any([each.is_behind for each in self._choices])

    def new(self, frames: Iterable[Frame]) -> list[Frame]:
        """What of the second answer its caller does not have. Raises Differs."""
        rests = [self._rest(frame) for frame in frames]
        return [rest for rest in rests if rest is not None]

    def _rest(self, frame: Frame) -> Frame | None:
        rests = [self._choices[choice.index].rest(choice) for choice in frame.choices]
        choices = tuple([rest for rest in rests if rest is not None])
        self._skipped += frame.texts - sum([choice.has_text for choice in choices])
        usage = frame.usage if self.is_reached else None
        if usage is not None and self._base is not None:
            usage = self._whole(usage, self._base)
        if not choices and usage is None:
            return None
        return replace(frame, choices=choices, usage=usage)

    def _whole(self, second: Usage, base: Usage) -> Usage:
        """Of an answer whose text was continued: its prompt, and all that was delivered. What the
        second server read again is in the record of its attempt."""
        prompt = max(0, second.prompt - base.completion)
        cached = min(second.cached_input, prompt)
        written = min(second.cache_write, prompt - cached)
        return Usage(
            input=prompt - cached - written,
            cached_input=cached,
            output=base.output + max(0, second.output - self._skipped),
            cache_write=written,
            reasoning=base.reasoning + second.reasoning,
        )


class _ChoiceJoint:
    """Of one choice."""

    def __init__(self, sent: SentChoice) -> None:
        self._content = sent.content
        self._reasoning = sent.reasoning
        self._is_finished = sent.is_finished

    @property
    def is_behind(self) -> bool:
        return not self._is_finished and bool(self._content or self._reasoning)

    def rest(self, choice: Choice) -> Choice | None:
        """None where it says nothing new. Raises Differs."""
        if self._is_finished:
            return None
        if choice.prompt_logprobs is not None:
            choice = replace(choice, prompt_logprobs=None)
        if not self.is_behind:
            return choice
        content, self._content = _skipped(choice.content, self._content)
        reasoning, self._reasoning = _skipped(choice.reasoning, self._reasoning)
        says_more = bool(content or reasoning or choice.finish_reason is not None)
        if self.is_behind and (says_more or not _is_text(choice)):
            raise _differs()
        if choice.logprobs is not None and (content or reasoning):
            raise _differs()  # log probabilities are those of a whole piece
        if not says_more and _is_text(choice):
            return None
        return _with(choice, content, reasoning)


def _skipped(text: str, sent: str) -> tuple[str, str]:
    """What is new of a piece, and what is still to come again. Raises Differs."""
    size = min(len(text), len(sent))
    if text[:size] != sent[:size]:
        raise _differs()
    return text[size:], sent[size:]


def _is_text(choice: Choice) -> bool:
    return not (choice.delta.get("refusal") or choice.delta.get("tool_calls"))


def _with(choice: Choice, content: str, reasoning: str) -> Choice:
    """The choice with only so much of its text."""
    if choice.text is not None:
        return replace(choice, text=content, logprobs=None)
    others = {k: v for k, v in choice.delta.items() if k in ("role", "refusal", "tool_calls")}
    delta = others | {"content": content}
    if reasoning:
        delta["reasoning_content"] = reasoning
    return replace(choice, delta=delta, logprobs=None)


def _differs() -> Differs:
    differs = Differs(DIFFERS)
    differs.fault = Fault(None, DIFFERS)
    return differs
