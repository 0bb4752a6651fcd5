"""Budgets: the one that the limits of a scope have, those over windows, and their alerts."""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    Field,
    NonNegativeInt,
    PlainSerializer,
    field_validator,
    model_validator,
)

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
from billing.money import usd
from gateway.api.schemas import Answer, At, Body, NoneIfEmpty, Usd, left_out, read_from
from gateway.fields import Label
from gateway.limits.limit import BudgetWindowName

BudgetScope = Annotated[
    str,
    Field(
        pattern=r"^(org|project|key):[^/]+(/user:[^\x00-\x1f\x7f]{1,512})?$",
        description="`org:ID`, `project:ID` or `key:ID`; one end user of it, as in"
        " `org:ID/user:NAME`, or each that has none of its own: `org:ID/user:*`",
        examples=["key:key_default"],
    ),
]
Percents = Annotated[list[Annotated[int, Field(strict=True, ge=1, le=1000)]], Field(max_length=10)]
WindowKind = Literal["total", "day", "week", "month", "year", "rolling"]


def _not_negative(nanousd: int) -> int:
    if nanousd < 0:
        raise ValueError("a budget is not negative")
    return nanousd


BudgetUsd = Annotated[Usd, AfterValidator(_not_negative)]


def check_amount(nanousd: int, is_hard: bool) -> None:
    """Raises ValueError."""
    if is_hard and nanousd > MONEY_MAX_NANOUSD:
        raise ValueError(f"a hard budget is at most {usd(MONEY_MAX_NANOUSD)}")


class WindowBody(Body):
    """Periods of a calendar in a time zone, the last so many seconds, or all time."""

    kind: WindowKind = Field(examples=["month"])
    time_zone: Annotated[str, Field(max_length=64)] | None = Field(
        None,
        description="of the IANA database; UTC where nothing is said",
        examples=["Europe/Berlin"],
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


def _local_time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as wrong:
        raise BadWindow("an anchor is a local time as in 2026-01-31T09:00:00") from wrong


LocalTime = Annotated[datetime, PlainSerializer(datetime.isoformat, return_type=str)]


class BudgetWindow(Answer):
    """`time_zone` and `anchor` are those of a calendar, `seconds` those of a rolling window."""

    kind: WindowKind
    time_zone: str = left_out("zone")
    anchor: LocalTime = left_out("anchor")
    seconds: NonNegativeInt = left_out("span_s")


class BudgetFields(BaseModel):
    scope: str
    name: Label
    limit_usd: Usd
    window: Any
    hard: bool = True
    alerts: Percents = Field(
        [], description="percentages of the limit, told once in a period", examples=[[80, 100]]
    )


class NewBudget(BudgetFields, Body):
    """A hard budget stops calls before it is overspent, a soft one only tells."""

    scope: BudgetScope
    limit_usd: BudgetUsd = Field(
        description="decimal USD; of a hard one at most 9007199.25", examples=["100"]
    )
    window: WindowBody

    @model_validator(mode="after")
    def is_held(self) -> Self:
        check_amount(self.limit_usd, self.hard)
        return self


class BudgetChange(Body):
    """What is left out stays as it is."""

    name: Label | None = None
    limit_usd: BudgetUsd | None = None
    alerts: Percents | None = None

    @field_validator("name", "limit_usd", "alerts")
    @classmethod
    def not_null(cls, value: object) -> object:
        if value is None:
            raise ValueError("what is not to be changed is left out")
        return value

    def columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        if self.name is not None:
            columns["name"] = self.name
        if self.alerts is not None:
            columns["alert_percents"] = sorted(set(self.alerts))
        if self.limit_usd is not None:
            columns["amount_nanousd"] = self.limit_usd
        return columns


class BudgetState(Answer):
    """How a budget stands now; `held_usd` is null of one that is not hard."""

    spent_usd: Usd = Field(validation_alias="spent_nanousd")
    held_usd: Usd | None = Field(validation_alias="held_nanousd")
    remaining_usd: Usd = Field(validation_alias="left_nanousd")
    starts_at: At | None = Field(validation_alias="starts_us")
    resets_at: At | None = Field(validation_alias="resets_us")


class WindowBudget(BudgetFields, Answer):
    """`state` is null of a budget of each end user."""

    model_config = read_from("budget")
    object: Literal["budget"] = "budget"
    id: str = Field(validation_alias=AliasPath("budget", "budget_id"))
    organization: str = Field(validation_alias=AliasPath("budget", "org"))
    limit_usd: Usd = Field(validation_alias=AliasPath("budget", "amount_nanousd"))
    window: BudgetWindow
    hard: bool = Field(validation_alias=AliasPath("budget", "is_hard"))
    alerts: list[NonNegativeInt] = Field(validation_alias=AliasPath("budget", "alert_percents"))
    created_at: At = Field(validation_alias=AliasPath("budget", "created_us"))
    ended_at: At | None = Field(validation_alias=AliasPath("budget", "ended_us"))
    state: BudgetState | None = Field(validation_alias="standing")


class ScopeBudgetBody(Body):
    """The budget of a scope's limits. A window left out stays as it is; that of a new budget is the
    month."""

    limit_usd: BudgetUsd | None = Field(
        description="decimal USD; null takes the budget away", examples=["100"]
    )
    window: BudgetWindowName = "month"


class ScopeBudgetFields(Answer):
    window: BudgetWindowName = Field(validation_alias=AliasPath("limits", "budget_window"))
    limit_usd: Usd | None = Field(validation_alias=AliasPath("limits", "budget_nanousd"))
    spent_usd: Usd = Field(validation_alias="spent_nanousd")
    held_usd: Usd = Field(validation_alias="held_nanousd")


class ScopeBudget(ScopeBudgetFields):
    object: Literal["budget"] = "budget"
    scope: str = Field(validation_alias=AliasPath("limits", "scope"))


class BudgetAlert(Answer):
    """`end_user` is the digest that records know an end user by."""

    object: Literal["budget.alert"] = "budget.alert"
    budget: str = Field(validation_alias="budget_id")
    name: str
    organization: str = Field(validation_alias="org")
    scope: str
    end_user: NoneIfEmpty = Field(validation_alias="subject")
    percent: NonNegativeInt
    limit_usd: Usd = Field(validation_alias="amount_nanousd")
    spent_usd: Usd = Field(validation_alias="spent_nanousd")
    period_starts_at: Annotated[At | None, BeforeValidator(lambda us: us or None)] = Field(
        validation_alias="bucket_us"
    )
    raised_at: At = Field(validation_alias="raised_us")
