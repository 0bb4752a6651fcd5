"""What organizations spend, today and this month (UTC), as it is shown."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from billing.periods import period_at
from billing.queries import UsageSum
from gateway.console.calls import Name
from gateway.console.formatting import Money, count, money

ROWS_MAX = 12
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class SpendRow:
    organization: str
    id: str
    calls_today: str
    tokens_today: str
    today: Money
    calls_month: str
    tokens_month: str
    month: Money


@dataclass(frozen=True, slots=True)
class SpendView:
    month_name: str
    rows: tuple[SpendRow, ...]
    total: SpendRow
    left_out: int
    """How many organizations are in the total only."""
    wanted: str = ""
    """Only organizations with this in their name or id are listed."""


@dataclass(frozen=True, slots=True)
class Days:
    """The instants between which is summed: the month's start, today's start, a day after it."""

    month_us: int
    today_us: int
    end_us: int
    month_name: str


def days_of(now_us: int) -> Days:
    today_us = now_us - now_us % DAY_US
    at = datetime.fromtimestamp(now_us // 1_000_000, UTC)
    return Days(period_at(now_us).start_us, today_us, today_us + DAY_US, f"{at:%B %Y}")


@dataclass(slots=True)
class _Sum:
    calls: int = 0
    tokens: int = 0
    nanousd: int = 0

    def add(self, row: UsageSum) -> None:
        self.calls += row.requests
        self.tokens += row.input + row.cached_input + row.output
        self.nanousd += row.amount_nanousd


def spend_view(
    earlier: Sequence[UsageSum],
    today: Sequence[UsageSum],
    name: Name,
    *,
    month_name: str,
    search: str = "",
) -> SpendView:
    """`earlier` are this month's sums per organization before today, `today` those since. Of very
    many the dearest are listed; `search` finds the others."""
    todays: dict[str, _Sum] = {}
    months: dict[str, _Sum] = {}
    all_today, all_month = _Sum(), _Sum()
    for row in today:
        for place in (todays.setdefault(row.group["org"], _Sum()), all_today):
            place.add(row)
    for row in [*earlier, *today]:
        for place in (months.setdefault(row.group["org"], _Sum()), all_month):
            place.add(row)
    dearest = sorted(months, key=lambda org: (-months[org].nanousd, -months[org].calls, org))
    matches = [org for org in dearest if _is_wanted(search, org, name(org))]
    rows_shown = matches[:ROWS_MAX]
    return SpendView(
        month_name=month_name,
        rows=tuple(
            _row(name(org), org, todays.get(org, _Sum()), months[org]) for org in rows_shown
        ),
        total=_row("All organizations", "", all_today, all_month),
        left_out=len(dearest) - len(rows_shown),
        wanted=search,
    )


def _is_wanted(search: str, org: str, name: str) -> bool:
    return any(search.casefold() in text.casefold() for text in (org, name))


def _row(organization: str, id: str, today: _Sum, month: _Sum) -> SpendRow:
    return SpendRow(
        organization=organization,
        id=id,
        calls_today=count(today.calls),
        tokens_today=count(today.tokens),
        today=money(today.nanousd),
        calls_month=count(month.calls),
        tokens_month=count(month.tokens),
        month=money(month.nanousd),
    )
