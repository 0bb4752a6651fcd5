"""The report of `verify`: one named check per law of money, each with its first break."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

Progress = Callable[[str, int, int], None]
"""What is being looked at, how much of it is done, and of how much (0: nobody knows)."""


class Outcome(StrEnum):
    HOLDS = "holds"
    BROKEN = "broken"
    NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """`detail` is the first offending row, or the reason why the law could not be checked."""

    name: str
    law: str
    outcome: Outcome
    checked: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(check.outcome != Outcome.BROKEN for check in self.checks)

    def as_text(self) -> str:
        lines = [_text(check) for check in self.checks]
        return "\n".join([*lines, self._verdict()])

    def _verdict(self) -> str:
        if not self.ok:
            return "A LAW IS BROKEN"
        unchecked = sum(check.outcome is Outcome.NOT_CHECKED for check in self.checks)
        return f"what was checked holds, {unchecked} was not" if unchecked else "every law holds"


def judged(name: str, law: str, breaks: Iterable[str], checked: int) -> Check:
    """The check of a law. It holds if there is no break, else it names the first one."""
    first = next(iter(breaks), None)
    outcome = Outcome.HOLDS if first is None else Outcome.BROKEN
    return Check(name, law, outcome, checked, first or "")


def silent(_what: str, _done: int, _of: int) -> None:
    """Progress that is not shown."""


def _text(check: Check) -> str:
    detail = f": {check.detail}" if check.detail else ""
    return f"{check.outcome.value:<11} {check.name} ({check.checked}) - {check.law}{detail}"
