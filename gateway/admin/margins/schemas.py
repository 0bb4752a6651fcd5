"""What was earned, what it cost us and what nobody used."""

from typing import Annotated, Literal

from pydantic import AliasPath, BeforeValidator, Field, NonNegativeInt

from gateway.api.fields import EpochS
from gateway.api.schemas import Answer, Usd
from gateway.api.spans import SpanPage, SpanQuery
from gateway.instants import iso

By = Literal["request", "organization", "model", "pool", "day"]
Seconds = Annotated[float, BeforeValidator(lambda microseconds: microseconds / 1e6)]


class MarginQuery(SpanQuery):
    start_time: EpochS | None = Field(None, description="epoch seconds, in whole hours")
    end_time: EpochS | None = Field(None, description="epoch seconds, exclusive, in whole hours")
    group_by: list[By] = Field([])


def _text(value: str | int) -> str:
    """A day is its first microsecond."""
    return iso(value) if isinstance(value, int) else value


MarginGroup = Annotated[
    dict[By, Annotated[str, BeforeValidator(_text)]],
    Field(description="in the order of `group_by`; a day is ISO 8601, UTC"),
]


class Earnings(Answer):
    requests: NonNegativeInt
    revenue_usd: Usd = Field(validation_alias="revenue_nanousd")
    cogs_usd: Usd = Field(validation_alias="cost_nanousd")
    margin_usd: Usd = Field(validation_alias="margin_nanousd")


class FleetMargin(Earnings):
    """With the capacity behind the calls, and what nobody used of it."""

    bill_usd: Usd = Field(validation_alias="bill_nanousd")
    unallocated_usd: Usd = Field(validation_alias="unallocated_nanousd")
    idle_usd: Usd = Field(validation_alias=AliasPath("capacity", "idle_nanousd"))
    cold_start_usd: Usd = Field(validation_alias=AliasPath("capacity", "cold_start_nanousd"))
    wasted_usd: Usd = Field(validation_alias=AliasPath("capacity", "wasted_nanousd"))
    unrecorded_usd: Usd = Field(
        validation_alias="unrecorded_nanousd",
        description=(
            "decimal USD: what replicas have reported to have computed, less what records of calls"
            " tell of. A replica reports every `life_report_s` (a minute), a call when it ends: so"
            " it is below zero while calls are told of that were computed since the last report,"
            " or computed before the first of these hours. What was not reported yet is not in"
            " `bill_usd`, `unallocated_usd` and `net_margin_usd` either"
        ),
    )
    net_margin_usd: Usd = Field(validation_alias="net_margin_nanousd")
    replica_s: Seconds = Field(validation_alias=AliasPath("capacity", "life_us"))
    cold_start_s: Seconds = Field(validation_alias=AliasPath("capacity", "cold_start_us"))
    busy_s: Seconds = Field(validation_alias=AliasPath("capacity", "busy_us"))


class GroupMargin(Earnings):
    """Of calls or organizations: those have no part in what nobody used."""

    group: MarginGroup


class CapacityMargin(FleetMargin):
    group: MarginGroup


class Margins(SpanPage[CapacityMargin | GroupMargin]):
    fleet: FleetMargin
