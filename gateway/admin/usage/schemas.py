"""Usage by group, hour or day."""

from typing import Literal

from pydantic import Field, NonNegativeInt

from billing.queries import GroupBy
from gateway.api.schemas import Answer, At, UsageCounts, Usd, left_out
from gateway.api.spans import SpanPage, SpanQuery
from gateway.api.time_buckets import Width
from gateway.fields import Label

Dimension = Literal[
    GroupBy.MODEL,
    GroupBy.KEY,
    GroupBy.PROJECT,
    GroupBy.ORG,
    GroupBy.TIER,
    GroupBy.BATCH,
    GroupBy.STATUS,
    GroupBy.POOL,
    GroupBy.DAY,
    GroupBy.HOUR,
]
"""Whatever there are sums by: a minute is summed from the log."""


class UsageSumQuery(SpanQuery):
    organization: Label | None = None
    group_by: list[Dimension] = Field([])
    bucket_width: Literal[Width.HOUR, Width.DAY] | None = Field(
        None, description="a row for every hour or day, too"
    )


class UsageSumAnswer(Answer):
    """`from` and `to` are those of its bucket."""

    group: dict[Dimension, str | bool | int] = Field(
        description="in the order of `group_by`; a day and an hour are their first microsecond"
    )
    requests: NonNegativeInt
    usage: UsageCounts
    cost_usd: Usd = Field(validation_alias="amount_nanousd")
    from_us: At = left_out("from_us", "from")
    to_us: At = left_out("to_us", "to")


class UsageSums(SpanPage[UsageSumAnswer]):
    """A row for each group and, where they are asked for, each hour or day."""
