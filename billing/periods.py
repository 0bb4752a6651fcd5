"""UTC months, as invoices name them: `2026-11`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_PERIOD = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")
_MICROSECONDS = 1_000_000


class BadPeriod(ValueError):
    """The text is no month of the form YYYY-MM, or its year is in no calendar here."""


@dataclass(frozen=True, slots=True, order=True)
class Period:
    """One calendar month, [start_us, end_us)."""

    start_us: int
    end_us: int
    name: str


def period(name: str) -> Period:
    """The month named YYYY-MM; raises BadPeriod."""
    match = _PERIOD.fullmatch(name)
    if match is None:
        raise BadPeriod(f"{name!r} is not a month of the form YYYY-MM")
    year, month = int(match[1]), int(match[2])
    try:
        return Period(_start_us(year, month), _start_us(year + month // 12, month % 12 + 1), name)
    except ValueError as outside:
        raise BadPeriod(f"no calendar here has a {name}") from outside


def period_at(at_us: int) -> Period:
    """The month an instant lies in."""
    return period(_utc(at_us).strftime("%Y-%m"))


def _utc(at_us: int) -> datetime:
    return datetime.fromtimestamp(at_us // _MICROSECONDS, UTC)


def _start_us(year: int, month: int) -> int:
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * _MICROSECONDS
