"""Laws of the windows of budgets: periods tile time in every zone, whatever its clocks do, and are
a function of time alone; a rolling span never counts less than was spent within it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from billing.budgets.windows import (
    BUCKETS,
    EVER,
    ROLLING_S_MAX,
    BadWindow,
    BudgetPeriod,
    Calendar,
    Ever,
    Rolling,
    Unit,
    checked,
    period_of,
)

ZONES = sorted(available_timezones() | {"UTC"})
DAY_US = 86_400_000_000
WHOLE = {Unit.DAY: 1, Unit.WEEK: 7, Unit.MONTH: 31, Unit.YEAR: 366}
LOCAL_TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2100, 12, 31)).map(
    lambda at: at.replace(microsecond=0, second=0)
)
INSTANTS = st.integers(0, 4_102_444_800_000_000)


def us(text: str, zone: str = "UTC", fold: int = 0) -> int:
    at = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold)
    return round((at - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1))


@st.composite
def calendars(draw: st.DrawFn) -> Calendar:
    return Calendar(
        draw(st.sampled_from(Unit)),
        draw(st.sampled_from(ZONES)),
        draw(LOCAL_TIMES | st.just(DAY_31)),
    )


DAY_31 = datetime(2024, 1, 31)
SKIPPED_DAY = us("2011-12-31T00:00", "Pacific/Apia")


@given(window=calendars(), at_us=INSTANTS)
@example(Calendar(Unit.DAY, "Pacific/Apia"), SKIPPED_DAY)
@example(Calendar(Unit.DAY, "Pacific/Apia"), SKIPPED_DAY - 1)
@example(Calendar(Unit.MONTH, "Africa/Cairo", datetime(1970, 1, 1)), us("2023-04-28T00:00"))
def test_periods_tile_time(window: Calendar, at_us: int) -> None:
    """The end of each is the beginning of the next, every instant between lies in the same one,
    and none is longer than its unit and a day."""
    period = period_of(window, at_us)
    assert at_us in period and period.end_us is not None
    assert period_of(window, period.start_us) == period == period_of(window, period.end_us - 1)
    assert period_of(window, period.end_us).start_us == period.end_us
    assert period_of(window, period.start_us - 1).end_us == period.start_us
    assert 0 < period.end_us - period.start_us <= (WHOLE[window.unit] + 1) * DAY_US


@given(window=calendars(), one=INSTANTS, other=INSTANTS)
def test_periods_of_two_instants_are_the_same_or_apart(
    window: Calendar, one: int, other: int
) -> None:
    first, second = period_of(window, min(one, other)), period_of(window, max(one, other))
    assert first.end_us is not None
    assert first == second or first.end_us <= second.start_us


@given(window=calendars(), at_us=INSTANTS)
def test_a_period_begins_at_its_local_time_or_where_clocks_were_put_forward(
    window: Calendar, at_us: int
) -> None:
    start_us = period_of(window, at_us).start_us
    zone = ZoneInfo(window.zone)
    begins = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=start_us)).astimezone(zone)
    anchor = window.anchor
    if begins.time() != anchor.time():
        before = (begins - timedelta(days=1)).utcoffset()
        assert begins.utcoffset() != before or begins.fold == 0
        midnight = begins.replace(hour=anchor.hour, minute=anchor.minute, second=0)
        there_and_back = midnight.astimezone(UTC).astimezone(zone)
        assert there_and_back.replace(tzinfo=None) != midnight.replace(tzinfo=None), "it is a gap"


MONTHLY = Calendar(Unit.MONTH, anchor=DAY_31)
YEARLY = Calendar(Unit.YEAR, anchor=datetime(2024, 2, 29))
WEEKLY = Calendar(Unit.WEEK, anchor=datetime(1970, 1, 5))
DAILY_AT_9 = Calendar(Unit.DAY, anchor=datetime(1970, 1, 1, 9))


@pytest.mark.parametrize(
    ("window", "at", "starts", "ends"),
    [
        (MONTHLY, "2026-02-27T23:59", "2026-01-31", "2026-02-28"),
        (MONTHLY, "2026-02-28", "2026-02-28", "2026-03-31"),
        (MONTHLY, "2024-02-29", "2024-02-29", "2024-03-31"),
        (MONTHLY, "2026-05-01", "2026-04-30", "2026-05-31"),
        (YEARLY, "2026-03-01", "2026-02-28", "2027-02-28"),
        (YEARLY, "2028-02-29", "2028-02-29", "2029-02-28"),
        (WEEKLY, "2026-11-21T03:00", "2026-11-16", "2026-11-23"),
        (DAILY_AT_9, "2026-11-21T08:59", "2026-11-20T09:00", "2026-11-21T09:00"),
    ],
)
def test_g30_the_31st_and_the_29th_of_february_come_back(
    window: Calendar, at: str, starts: str, ends: str
) -> None:
    """litellm#8364, #16057: a budget that began on the 31st was never reset, or drifted."""
    assert period_of(window, us(at)) == BudgetPeriod(us(starts), us(ends))


@pytest.mark.parametrize(
    ("zone", "anchor", "day", "hours"),
    [
        ("Europe/Berlin", datetime(1970, 1, 1), "2026-03-29", 23),
        ("Europe/Berlin", datetime(1970, 1, 1), "2026-10-25", 25),
        ("America/New_York", datetime(1970, 1, 1), "2026-11-01", 25),
        ("Australia/Lord_Howe", datetime(1970, 1, 1), "2026-04-05", 24.5),
        ("America/Havana", datetime(1970, 1, 1), "2026-03-08", 23),
        ("Asia/Kolkata", datetime(1970, 1, 1), "2026-03-29", 24),
        ("Europe/Berlin", datetime(1970, 1, 1, 2, 30), "2026-03-28", 24),
        ("Europe/Berlin", datetime(1970, 1, 1, 2, 30), "2026-10-25", 25),
    ],
)
def test_g30_a_day_has_the_hours_that_it_has_there(
    zone: str, anchor: datetime, day: str, hours: float
) -> None:
    """litellm#7129, #32245: resets in server time, and an hour off around daylight saving."""
    begins = datetime.fromisoformat(day).replace(hour=anchor.hour, minute=anchor.minute)
    start_us = us(begins.isoformat(), zone)
    period = period_of(Calendar(Unit.DAY, zone, anchor), start_us)
    assert period == BudgetPeriod(start_us, start_us + round(hours * 3600) * 1_000_000)


def test_g30_an_hour_that_comes_twice_begins_a_period_once() -> None:
    """02:30 of 25 October in Berlin is there twice: the first of them is meant."""
    window = Calendar(Unit.DAY, "Europe/Berlin", datetime(1970, 1, 1, 2, 30))
    first, second = (us("2026-10-25T02:30", "Europe/Berlin", fold) for fold in (0, 1))
    assert second == first + 3_600_000_000
    assert period_of(window, first).start_us == period_of(window, second).start_us == first


def test_a_total_has_one_period() -> None:
    assert period_of(Ever(), 0) == period_of(Ever(), 2**60) == EVER


SPENDING = st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 1000)), max_size=30)


@given(span_s=st.integers(60, 1_000), spent=SPENDING, at_us=st.integers(0, 10**10))
def test_a_rolling_span_counts_all_that_was_spent_in_it_and_hardly_more(
    span_s: int, spent: list[tuple[int, int]], at_us: int
) -> None:
    window = Rolling(span_s)
    assert window.width_us * BUCKETS == window.span_us
    by_bucket: dict[int, int] = {}
    for when, amount in spent:
        if when <= at_us:
            bucket = window.bucket_us(when)
            by_bucket[bucket] = by_bucket.get(bucket, 0) + amount
    counted = sum(n for bucket, n in by_bucket.items() if bucket >= window.oldest_us(at_us))

    def within(span_us: int) -> int:
        return sum(n for when, n in spent if at_us - span_us <= when <= at_us)

    assert within(window.span_us) <= counted <= within(window.span_us + window.width_us)


@pytest.mark.parametrize(
    "window",
    [
        Rolling(59),
        Rolling(ROLLING_S_MAX + 1),
        Calendar(Unit.DAY, "Mars/Olympus_Mons"),
        Calendar(Unit.DAY, "../../etc/passwd"),
        Calendar(Unit.DAY, ""),
        Calendar(Unit.DAY, anchor=datetime(1969, 12, 31)),
        Calendar(Unit.DAY, anchor=datetime(2026, 1, 1, tzinfo=UTC)),
    ],
)
def test_windows_that_cannot_be_counted_over_are_refused(window: Calendar | Rolling) -> None:
    with pytest.raises(BadWindow):
        checked(window)
