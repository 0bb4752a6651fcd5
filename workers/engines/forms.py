"""The form that an answer is asked to have. Knows no grammar and no library that keeps to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON schema as text, what it is the schema of, and the field of the body that holds it.
    A `lenient` one is followed as far as it is understood."""

    name: str
    text: str
    param: str
    lenient: bool = False


@dataclass(frozen=True, slots=True)
class Guide:
    """The form that an answer must have: JSON by `answer`, or any text where that is None, or calls
    of `tools` instead (after any text, where text is free). `must_call` leaves only the calls;
    without `parallel` there is one at most."""

    answer: Schema | None = None
    tools: tuple[Schema, ...] = ()
    must_call: bool = False
    parallel: bool = True


class Constraint(Protocol):
    """A guide as an engine has compiled it; for requests to that engine and opaque otherwise."""

    @property
    def guide(self) -> Guide: ...
