"""What a cloud says of the end of its machine. One adapter a provider says it in this form."""

from typing import Protocol

import msgspec


class Announcement(msgspec.Struct, frozen=True):
    """The machine ends at `deadline_s`, in epoch seconds."""

    deadline_s: float
    why: str


class WrongAnswer(Exception):
    """The metadata server said something that its documentation does not know."""


class Provider(Protocol):
    def look(self) -> Announcement | None:
        """What is announced now. Raises MetadataAway or WrongAnswer."""
        ...
