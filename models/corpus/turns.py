"""The parts of a sample: turns of a talk under the tools on offer, or a passage of plain prose."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """`given` are the places of `content` that a form decides. A model need not learn them."""

    role: str
    content: str
    given: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Talk:
    """`tools` are functions as JSON, in the form of the chat template."""

    turns: tuple[Turn, ...]
    tools: tuple[str, ...] = ()

    @property
    def said_by_user(self) -> tuple[str, ...]:
        return tuple(turn.content for turn in self.turns if turn.role == "user")


@dataclass(frozen=True, slots=True)
class Passage:
    text: str
