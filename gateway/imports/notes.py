"""What of a document has no counterpart here, each at its place and with the reason."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Note(NamedTuple):
    place: str
    words: str


@dataclass
class Notes:
    """Gathered while a document is read; a place is told the same only once."""

    told: list[Note] = field(default_factory=list)

    def add(self, place: str, words: str) -> None:
        note = Note(place, words)
        if note not in self.told:
            self.told.append(note)
