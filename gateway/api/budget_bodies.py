"""The bodies that make and change budgets."""

from datetime import datetime
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from billing.budgets.windows import (
    ANCHORS,
    BadWindow,
    Calendar,
    Ever,
    Rolling,
    Unit,
    Window,
    checked,
)
from billing.limits.types import MONEY_MAX_NANOUSD
from billing.money import nanousd, usd
from gateway.api.fields import Label

BudgetScope = Annotated[
    str,
    Field(
        pattern=r"^(org|project|key):[^/]+(/user:[^\x00-\x1f\x7f]{1,512})?$",
        description="`org:ID`, `project:ID` or `key:ID`; one end user of it, as in"
        " `org:ID/user:NAME`, or each that has none of its own: `org:ID/user:*`",
    ),
]
Percents = Annotated[list[Annotated[int, Field(strict=True, ge=1, le=1000)]], Field(max_length=10)]


class WindowBody(BaseModel):
    """Periods of a calendar in a time zone, the last so many seconds, or all time."""

    model_config = ConfigDict(extra="forbid")
    kind: Literal["total", "day", "week", "month", "year", "rolling"]
    time_zone: Annotated[str, Field(max_length=64)] | None = Field(
        None, description="of the IANA database; UTC where nothing is said"
    )
    anchor: Annotated[str, Field(max_length=19)] | None = Field(
        None,
        description="a local time at which periods begin, as in `2026-01-31T09:00:00`; midnight,"
        " Monday, the 1st, 1 January where nothing is said",
    )
    seconds: int | None = Field(None, strict=True, description="of a rolling window")

    @model_validator(mode="after")
    def is_whole(self) -> Self:
        self.window()
        return self

    def window(self) -> Window:
        """Raises BadWindow."""
        is_calendar = self.kind not in ("total", "rolling")
        if not is_calendar and (self.time_zone is not None or self.anchor is not None):
            raise BadWindow("a time zone and an anchor belong to a calendar")
        if (self.kind == "rolling") != (self.seconds is not None):
            raise BadWindow("seconds belong to a rolling window, and it needs them")
        if self.kind == "total":
            return Ever()
        if self.seconds is not None:
            return checked(Rolling(self.seconds))
        unit = Unit(self.kind)
        anchor = ANCHORS[unit] if self.anchor is None else _local_time(self.anchor)
        return checked(Calendar(unit, self.time_zone or "UTC", anchor))


class NewBudget(BaseModel):
    """A hard budget stops calls before it is overspent, a soft one only tells."""

    model_config = ConfigDict(extra="forbid")
    scope: BudgetScope
    name: Label
    limit_usd: str = Field(description="decimal USD; of a hard one at most 9007199.25")
    window: WindowBody
    hard: bool = True
    alerts: Percents = Field([], description="percentages of the limit, told once in a period")

    @model_validator(mode="after")
    def is_amount(self) -> Self:
        check_amount(self.limit_usd, self.hard)
        return self


class BudgetChange(BaseModel):
    """What is left out stays as it is."""

    model_config = ConfigDict(extra="forbid")
    name: Label | None = None
    limit_usd: str | None = None
    alerts: Percents | None = None

    @field_validator("name", "limit_usd", "alerts")
    @classmethod
    def is_said(cls, value: object) -> object:
        if value is None:
            raise ValueError("what is not to be changed is left out")
        return value


def check_amount(text: str, is_hard: bool) -> int:
    """Nano-USD; raises ValueError."""
    amount = nanousd(text)
    if amount < 0:
        raise ValueError("a budget is not negative")
    if is_hard and amount > MONEY_MAX_NANOUSD:
        raise ValueError(f"a hard budget is at most {usd(MONEY_MAX_NANOUSD)}")
    return amount


class ScopeBudgetBody(BaseModel):
    """The budget of a scope's limits. A window left out stays as it is; that of a new budget is the
    month."""

    model_config = ConfigDict(extra="forbid")
    limit_usd: str | None = Field(description="decimal USD; null takes the budget away")
    window: Literal["total", "month"] = "month"

    @field_validator("limit_usd")
    @classmethod
    def is_amount(cls, text: str | None) -> str | None:
        if text is not None and nanousd(text) < 0:
            raise ValueError("a budget is not negative")
        return text


def _local_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as wrong:
        raise BadWindow("an anchor is a local time as in 2026-01-31T09:00:00") from wrong
