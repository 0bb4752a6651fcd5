"""Steps against those who do not pay: which one is due of an invoice on a day.

Pure. Steps are dated data: an invoice is dunned by those that held on the day it was due. Steps are
taken in their order, each once, and none is left out: one that comes late moves the ones behind it,
so whoever is warned always has the time that the warning names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from itertools import pairwise

DAYS_MAX = 3_650


class StepName(StrEnum):
    """In their order."""

    REMINDER = "reminder"
    SECOND_REMINDER = "second_reminder"
    LAST_NOTICE = "last_notice"
    SUSPENSION = "suspension"


ORDER = tuple(StepName)


class BadSteps(ValueError):
    """The steps contradict each other."""


@dataclass(frozen=True, slots=True)
class DunningStep:
    """So many days after an invoice was due, of those that were due on `since` or later."""

    name: StepName
    days: int
    since: date = date.min


@dataclass(frozen=True, slots=True)
class Unpaid:
    """What steps are decided by: the day an invoice was due, what is left of it, and on which day
    each step was taken."""

    due: date
    left_cents: int
    taken: Mapping[StepName, date]


def checked_steps(steps: Iterable[DunningStep]) -> tuple[DunningStep, ...]:
    """Raises BadSteps."""
    given = tuple(steps)
    if len({(step.name, step.since) for step in given}) != len(given):
        raise BadSteps("a step is there twice from one day")
    for since in {step.since for step in given}:
        days = [step.days for step in schedule(given, since)]
        if any(later <= earlier for earlier, later in pairwise(days)):
            raise BadSteps(f"each step is later than the one before: {', '.join(ORDER)}")
    return given


def schedule(steps: Iterable[DunningStep], due: date) -> list[DunningStep]:
    """The steps that hold for invoices due on a day, in their order: of each name the latest."""
    held: dict[StepName, DunningStep] = {}
    for step in sorted(steps, key=lambda each: each.since):
        if step.since <= due:
            held[step.name] = step
    return [held[name] for name in ORDER if name in held]


def next_step(invoice: Unpaid, today: date, steps: Iterable[DunningStep]) -> DunningStep | None:
    """The step to take today, or None."""
    coming = upcoming(invoice, steps)
    return coming[0] if coming and today >= coming[1] else None


def upcoming(invoice: Unpaid, steps: Iterable[DunningStep]) -> tuple[DunningStep, date] | None:
    """The step that comes next, and the day from which on it is taken."""
    if invoice.left_cents <= 0:
        return None
    plan = schedule(steps, invoice.due)
    step = _behind(plan, invoice.taken)
    return (step, _day_of(step, plan, invoice)) if step else None


def _behind(plan: Sequence[DunningStep], taken: Iterable[StepName]) -> DunningStep | None:
    """The first step behind all that were taken."""
    last = max((ORDER.index(name) for name in taken), default=-1)
    return next((step for step in plan if ORDER.index(step.name) > last), None)


def _day_of(step: DunningStep, plan: Sequence[DunningStep], invoice: Unpaid) -> date:
    """Its own day, or later by as much as the step before it was late."""
    own = invoice.due + timedelta(days=step.days)
    pauses = (
        invoice.taken[each.name] + timedelta(days=step.days - each.days)
        for each in plan
        if each.name in invoice.taken
    )
    return max([own, *pauses])
