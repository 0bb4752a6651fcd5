"""What a server outside has said of an answer, as its caller has it: text and reasoning, by choice.
Such a server says no token ids, so an answer goes on by its text (`gateway/moves/continuation.py`).
Pure."""

from typing import NamedTuple

from gateway.call.frame import Choice, Frame
from gateway.moves.arrived import ARRIVED_BYTES_MAX


class SentChoice(NamedTuple):
    """What has been sent of one choice, and whether it has finished."""

    content: str = ""
    reasoning: str = ""
    is_finished: bool = False


class Said:
    """Of `choices` answers. Frames that were counted and sent on are appended to `new`, and
    gathered now and then, as of `Arrived`."""

    def __init__(self, choices: int) -> None:
        self.new: list[Frame] = []
        self._content: list[list[str]] = [[] for _ in range(choices)]
        self._reasoning: list[list[str]] = [[] for _ in range(choices)]
        self._finished: set[int] = set()
        self._characters = 0
        self._is_text = True
        self.is_prefix_refused = False
        """A server that was to continue the text would not."""

    def gather(self) -> None:
        """Keep the text of new frames."""
        for frame in self.new:
            for choice in frame.choices:
                if choice.index not in self._finished:
                    self._keep(choice)
        self.new.clear()
        if self._characters > ARRIVED_BYTES_MAX:
            for text in (*self._content, *self._reasoning):
                text.clear()

    def _keep(self, choice: Choice) -> None:
        content = choice.only_text if choice.text is None else choice.text
        if content is None:
            content, reasoning = choice.content, choice.reasoning
            if reasoning:
                self._reasoning[choice.index].append(reasoning)
                self._characters += len(reasoning)
            if choice.delta.get("refusal") or choice.delta.get("tool_calls"):
                self._is_text = False
        if content:
            self._content[choice.index].append(content)
            self._characters += len(content)
        if choice.finish_reason is not None:
            self._finished.add(choice.index)

    @property
    def exact(self) -> bool:
        """Whether all that was sent is text, and not too long to be kept."""
        return self._is_text and self._characters <= ARRIVED_BYTES_MAX

    @property
    def choices(self) -> tuple[SentChoice, ...]:
        return tuple(
            [
                SentChoice("".join(content), "".join(reasoning), index in self._finished)
                for index, (content, reasoning) in enumerate(
                    zip(self._content, self._reasoning, strict=True)
                )
            ]
        )
