"""A known mistake can still be made: its line is where it was."""

from __future__ import annotations

from pathlib import Path

from tests.mutants.known import KNOWN

ROOT = Path(__file__).parents[2]


def test_each_known_mistake_changes_one_place() -> None:
    places = {known.what: (ROOT / known.path).read_text().count(known.right) for known in KNOWN}
    assert {what: count for what, count in places.items() if count != 1} == {}
