"""Laws of dunning, day by day: each step once, in order, never early, and none once it is paid."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.dunning.steps import (
    ORDER,
    BadSteps,
    DunningStep,
    StepName,
    Unpaid,
    checked_steps,
    next_step,
    schedule,
)

DUE = date(2026, 11, 15)
STEPS = [DunningStep(name, days) for name, days in zip(ORDER, (3, 10, 20, 30), strict=False)]


@st.composite
def plans(draw: st.DrawFn) -> list[DunningStep]:
    names = [name for name in ORDER if draw(st.booleans())]
    days = sorted(draw(st.sets(st.integers(0, 40), min_size=len(names), max_size=len(names))))
    return [DunningStep(name, day) for name, day in zip(names, days, strict=True)]


@given(plan=plans(), looked=st.sets(st.integers(-5, 80)), paid=st.integers(-5, 80))
def test_each_step_is_taken_once_in_order_never_early_and_never_of_a_paid_invoice(
    plan: list[DunningStep], looked: set[int], paid: int
) -> None:
    """On whichever days somebody looks, twice a day."""
    taken: dict[StepName, date] = {}
    for day in sorted(looked):
        today = DUE + timedelta(days=day)
        left = 0 if day >= paid else 100
        for _ in range(2):
            step = next_step(Unpaid(DUE, left, taken), today, plan)
            if step is not None:
                assert step.name not in taken and left
                assert day >= step.days
                taken[step.name] = today
    names = list(taken)
    assert names == [step.name for step in plan][: len(names)]
    days = {step.name: step.days for step in plan}
    for before, after in pairwise(names):
        pause = timedelta(days=days[after] - days[before])
        assert taken[after] - taken[before] >= pause, "the time that a warning names is left"
    if set(range(81)) <= looked and paid > 80:
        assert names == [step.name for step in plan]


def test_steps_are_taken_on_their_days_and_late_ones_move_those_behind() -> None:
    first, second = STEPS[:2]
    taken: dict[StepName, date] = {}
    assert next_step(Unpaid(DUE, 1, taken), DUE + timedelta(days=2), STEPS) is None
    late = DUE + timedelta(days=200)
    assert next_step(Unpaid(DUE, 1, taken), late, STEPS) == first
    taken[first.name] = late
    assert next_step(Unpaid(DUE, 1, taken), late + timedelta(days=6), STEPS) is None
    assert next_step(Unpaid(DUE, 1, taken), late + timedelta(days=7), STEPS) == second


def test_invoice_is_dunned_by_the_steps_of_the_day_it_was_due() -> None:
    changed = DunningStep(StepName.REMINDER, 8, since=DUE)
    assert schedule([*STEPS, changed], DUE)[0] == changed
    assert schedule([*STEPS, changed], DUE - timedelta(days=1)) == STEPS
    assert schedule([changed], DUE - timedelta(days=1)) == []


def test_step_that_is_new_in_between_is_not_taken_after_a_later_one() -> None:
    taken = {StepName.LAST_NOTICE: DUE}
    assert next_step(Unpaid(DUE, 1, taken), DUE + timedelta(days=999), STEPS[:3]) is None


@pytest.mark.parametrize(
    "wrong",
    [
        [DunningStep(StepName.REMINDER, 3), DunningStep(StepName.LAST_NOTICE, 3)],
        [DunningStep(StepName.REMINDER, 3), DunningStep(StepName.REMINDER, 4)],
        [*STEPS, DunningStep(StepName.REMINDER, 10, since=DUE)],
    ],
)
def test_steps_that_contradict_each_other_are_refused(wrong: list[DunningStep]) -> None:
    with pytest.raises(BadSteps):
        checked_steps(wrong)
    assert checked_steps(STEPS) == tuple(STEPS)
