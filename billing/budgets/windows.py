"""Over which time a budget counts: periods of a calendar in a time zone, a rolling span, or ever.

Pure. A period is a function of time and nothing is ever reset: what begins a new period is that
its instant has come. Guards that periods tile time (each instant lies in exactly one), whatever
daylight saving, leap days and short months do, and that a rolling span never counts too little.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
BUCKETS = 50
"""Parts of a rolling span: it is at most a fiftieth longer than it says."""
ROLLING_S_MIN, ROLLING_S_MAX = 60, 366 * 86_400
UTC_NAME = "UTC"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class BadWindow(ValueError):
    """Not a window that can be counted over, in words for whoever asked for it."""


class Unit(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


ANCHORS = {
    Unit.DAY: datetime(1970, 1, 1),
    Unit.WEEK: datetime(1970, 1, 5),
    Unit.MONTH: datetime(1970, 1, 1),
    Unit.YEAR: datetime(1970, 1, 1),
}
"""Where nothing else is said: midnight, Monday, the first, the first of January."""


@dataclass(frozen=True, slots=True)
class Period:
    """[start_us, end_us) in epoch microseconds; an end of None never comes."""

    start_us: int
    end_us: int | None

    def __contains__(self, at_us: int) -> bool:
        return self.start_us <= at_us and (self.end_us is None or at_us < self.end_us)


EVER = Period(0, None)


@dataclass(frozen=True, slots=True)
class Calendar:
    """Periods of one unit that begin where `anchor`, a local time, plus a whole number of units
    does. A day that a month does not have is its last: the 31st of April is the 30th, the 29th of
    February the 28th in other years. Each is reckoned from the anchor, so the 31st comes back."""

    unit: Unit
    zone: str = UTC_NAME
    anchor: datetime = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Rolling:
    """The last `span_s` seconds, counted in whole parts of them."""

    span_s: int

    @property
    def span_us(self) -> int:
        return self.span_s * SECOND_US

    @property
    def width_us(self) -> int:
        """Of one part."""
        return self.span_us // BUCKETS

    def bucket_us(self, at_us: int) -> int:
        """Where the part begins in which an instant lies."""
        return at_us - at_us % self.width_us

    def oldest_us(self, at_us: int) -> int:
        """The first part that counts at an instant: the one that the span cuts counts whole."""
        return self.bucket_us(at_us - self.span_us)


@dataclass(frozen=True, slots=True)
class Ever:
    """One period without an end."""


Window = Calendar | Rolling | Ever


def checked(window: Window) -> Window:
    """The same; raises BadWindow."""
    match window:
        case Rolling(span_s=span_s) if not ROLLING_S_MIN <= span_s <= ROLLING_S_MAX:
            raise BadWindow(f"a rolling window has {ROLLING_S_MIN} to {ROLLING_S_MAX} seconds")
        case Calendar(zone=zone, anchor=anchor):
            zone_of(zone)
            if anchor.tzinfo is not None or not 1970 <= anchor.year <= 2100:
                raise BadWindow("an anchor is a local time of the years 1970 to 2100")
    return window


@lru_cache(1_000)
def zone_of(name: str) -> tzinfo:
    """A zone of the IANA database; raises BadWindow for any other name."""
    if name == UTC_NAME:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as unknown:
        raise BadWindow(f"there is no time zone {name!r}") from unknown


def period_of(window: Calendar | Ever, at_us: int) -> Period:
    """The one period in which an instant lies."""
    if isinstance(window, Ever):
        return EVER
    period = _period_of_minute(window, at_us // MINUTE_US)
    return period if at_us in period else _reckoned(window, at_us)


@lru_cache(10_000)
def _period_of_minute(window: Calendar, minute: int) -> Period:
    """That of its first instant: what calls ask for comes from here, for a minute of calls."""
    return _reckoned(window, minute * MINUTE_US)


def _reckoned(window: Calendar, at_us: int) -> Period:
    zone = zone_of(window.zone)
    local = (_EPOCH + timedelta(microseconds=at_us)).astimezone(zone).replace(tzinfo=None)
    number = _about(window, local)
    while _start_us(window, number, zone) > at_us:
        number -= 1
    while (end_us := _start_us(window, number + 1, zone)) <= at_us:
        number += 1
    return Period(_start_us(window, number, zone), end_us)


def _about(window: Calendar, local: datetime) -> int:
    """How many whole units lie between the anchor and a local time, give or take one."""
    anchor = window.anchor
    match window.unit:
        case Unit.DAY:
            return (local - anchor) // timedelta(days=1)
        case Unit.WEEK:
            return (local - anchor) // timedelta(weeks=1)
        case Unit.MONTH:
            return (local.year - anchor.year) * 12 + local.month - anchor.month
        case Unit.YEAR:
            return local.year - anchor.year


def _start_us(window: Calendar, number: int, zone: tzinfo) -> int:
    """When a period begins. A local time that does not come, for clocks are put forward, is meant
    by the offset before that; of one that comes twice the first counts (RFC 5545, 3.3.5)."""
    local = _local_start(window, number)
    return (local.replace(tzinfo=zone) - _EPOCH) // _MICROSECOND


def _local_start(window: Calendar, number: int) -> datetime:
    anchor = window.anchor
    match window.unit:
        case Unit.DAY:
            return anchor + timedelta(days=number)
        case Unit.WEEK:
            return anchor + timedelta(weeks=number)
        case Unit.MONTH:
            years, month = divmod(anchor.month - 1 + number, 12)
            return _clamped(anchor, anchor.year + years, month + 1)
        case Unit.YEAR:
            return _clamped(anchor, anchor.year + number, anchor.month)


def _clamped(anchor: datetime, year: int, month: int) -> datetime:
    return anchor.replace(year=year, month=month, day=min(anchor.day, monthrange(year, month)[1]))
