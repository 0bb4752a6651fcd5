"""What can be said of a document that somebody writes or reads: its lines with their mistakes, its
tests, and what differs from another version. Pure."""

from dataclasses import dataclass

from gateway.admin.policies.service import CheckedDocument
from gateway.console.pages.policies.changes import ChangeView, change_views
from gateway.console.pages.policies.text import TextLine, marked_lines
from gateway.policies.difference import difference
from gateway.policies.examples import ExampleResult
from gateway.policies.source import InvalidDocument
from routing.policy.conditions import Mistake


@dataclass(frozen=True, slots=True)
class CheckView:
    text: str
    lines: tuple[TextLine, ...]
    mistakes: tuple[Mistake, ...]
    warnings: tuple[Mistake, ...]
    tests: tuple[ExampleResult, ...]
    rules: int
    base: int | None
    """The version that it is compared with."""
    changes: tuple[ChangeView, ...] | None
    """None where it is compared with nothing, or cannot be."""

    @property
    def failed(self) -> int:
        return sum(not test.passed for test in self.tests)


def check_view(text: str, checked: CheckedDocument, base: tuple[int, str] | None) -> CheckView:
    """`base` is a version with its document."""
    return CheckView(
        text=text,
        lines=marked_lines(text, checked.errors),
        mistakes=tuple(checked.errors),
        warnings=tuple(checked.warnings),
        tests=tuple(checked.tests),
        rules=checked.rules or 0,
        base=None if base is None else base[0],
        changes=None if base is None else _changes(base[1], text),
    )


def _changes(before: str, after: str) -> tuple[ChangeView, ...] | None:
    try:
        return change_views(difference(before, after))
    except InvalidDocument:
        return None
