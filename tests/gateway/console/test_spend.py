"""Spend adds up: organizations to the total, and earlier days to today."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from billing.queries import UsageSum
from gateway.console.pages.overview.spend import DAY_US, ROWS_MAX, days_of, spend_view

SUMS = st.lists(
    st.builds(
        UsageSum,
        group=st.sampled_from([f"org_{n}" for n in range(20)]).map(lambda org: {"org": org}),
        requests=st.integers(1, 10**6),
        input=st.integers(0, 10**9),
        cached_input=st.integers(0, 10**9),
        output=st.integers(0, 10**9),
        amount_nanousd=st.integers(0, 10**15),
    ),
    max_size=20,
    unique_by=lambda row: row.group["org"],
)


@given(SUMS, SUMS)
def test_total_is_the_sum_of_everybody_listed_or_not(
    earlier: list[UsageSum], today: list[UsageSum]
) -> None:
    view = spend_view(earlier, today, str, month_name="November 2026")
    everybody = {row.group["org"] for row in [*earlier, *today]}
    assert len(view.rows) == min(len(everybody), ROWS_MAX)
    assert view.left_out == len(everybody) - len(view.rows)
    nanousd = sum(row.amount_nanousd for row in [*earlier, *today])
    assert Decimal(view.total.month.text.replace(",", "")) == Decimal(nanousd) / 10**9
    calls = sum(row.requests for row in today)
    assert view.total.calls_today == f"{calls:,}"


def spent(org: str, requests: int, tokens: tuple[int, int, int], amount: int) -> UsageSum:
    used = dict(zip(("input", "cached_input", "output"), tokens, strict=True))
    return UsageSum(group={"org": org}, requests=requests, amount_nanousd=amount, **used)


def test_dearest_of_the_month_stands_first_and_today_is_part_of_it() -> None:
    earlier = [spent("a", 1, (1, 1, 1), 100), spent("b", 9, (0, 0, 0), 150)]
    today = [spent("a", 2, (10, 0, 5), 70)]
    view = spend_view(earlier, today, str.upper, month_name="November 2026")
    assert [row.organization for row in view.rows] == ["A", "B"]
    first, second = view.rows
    assert (first.calls_today, first.tokens_today, first.calls_month) == ("2", "15", "3")
    assert (first.month.text, second.today.text) == ("0.00000017", "0.00")


@given(SUMS, SUMS)
def test_every_organization_that_called_is_found_by_its_id_and_its_name(
    earlier: list[UsageSum], today: list[UsageSum]
) -> None:
    for org in {row.group["org"] for row in [*earlier, *today]}:
        for wanted in (org, org.upper(), f"name of {org}"):
            view = spend_view(earlier, today, "name of {}".format, month_name="", search=wanted)
            assert org in {row.id for row in view.rows} or len(view.rows) == ROWS_MAX


@given(st.integers(1_600_000_000_000_000, 4_000_000_000_000_000))
def test_days_are_half_open_and_of_utc(now_us: int) -> None:
    days = days_of(now_us)
    assert days.month_us <= days.today_us <= now_us < days.end_us == days.today_us + DAY_US
    assert days.today_us % DAY_US == days.month_us % DAY_US == 0
    assert days_of(days.month_us).month_us == days.month_us
    assert days_of(days.month_us - 1).month_us < days.month_us
