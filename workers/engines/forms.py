"""The form that an answer is asked to have. Knows no grammar and no library that follows one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON schema as text, its name, and the field of the body that holds it. A `lenient` one is
    followed as far as it is understood."""

    name: str
    text: str
    param: str
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A whole grammar, in Lark's words, and the field of the body that asks for it."""

    name: str
    text: str
    param: str


@dataclass(frozen=True, slots=True)
class Guide:
    """The form that an answer must have. It is `rule`, or JSON by `answer`, or any text where both
    are None. Or the answer calls `tools` instead, after any text where text is free. `must_call`
    leaves only the calls. Without `parallel` there is one call at most. `room` is about how many
    tokens the answer may have, and bounds the parts that schemas leave open. None bounds nothing.
    """

    answer: Schema | None = None
    tools: tuple[Schema, ...] = ()
    must_call: bool = False
    parallel: bool = True
    rule: Rule | None = None
    room: int | None = None


class Constraint(Protocol):
    """A guide as an engine has compiled it. It is for requests to that engine, and opaque
    otherwise."""

    @property
    def guide(self) -> Guide: ...
