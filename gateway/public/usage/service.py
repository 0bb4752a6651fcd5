"""Usage and costs of an organization, or of everybody, from the hourly sums.

By the minute usage is read from the log, along an index and a bounded number of calls to a page: a
page may then have fewer buckets than were asked for, and says where the next one begins.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Request

from billing.db.engine import Store
from billing.money import NANOUSD_PER_USD
from billing.queries import GroupBy, UsageSum, busy_until, summed, usage_summary
from gateway.admin.authentication import is_admin, refuse_wrong_key
from gateway.api.dependencies import parts_of, principal_of
from gateway.api.time_buckets import Bucket, BucketPage, Width, page_of
from gateway.catalog.tables import ModelRow
from gateway.errors import ApiError
from gateway.public.usage.schemas import CostsQuery, OrganizationQuery, UsageQuery
from gateway.tenants.store import TenantStore
from routing.types import Clock, Task

DIMENSIONS = {
    "project_id": GroupBy.PROJECT,
    "api_key_id": GroupBy.KEY,
    "model": GroupBy.MODEL,
    "batch": GroupBy.BATCH,
    "service_tier": GroupBy.TIER,
}
SERVED = ("answered", "cancelled", "failed")
"""A call that was refused is no request that a model got."""
BUCKETS = {Width.MINUTE: GroupBy.MINUTE, Width.HOUR: GroupBy.HOUR, Width.DAY: GroupBy.DAY}
EVENTS_MAX = 20_000
"""Of one page by the minute, but for those of a single minute."""

LISTED = (Task.EMBED, Task.MODERATE, Task.TRANSCRIBE, Task.SPEAK, Task.IMAGE)
"""Tasks that have a list of their own."""

Group = Mapping[str, Any]


class GroupUsage(NamedTuple):
    """What was used of one group; `group` has the dimensions that were asked for."""

    sums: UsageSum
    group: Group


class CostValue(NamedTuple):
    value: float


@dataclass(frozen=True, slots=True)
class CostLine:
    """What was charged of one group, in all or for one line item."""

    group: Group
    nanousd: int
    line_item: str | None = None
    quantity: int | None = None
    quantity_unit: str | None = None

    @property
    def amount(self) -> CostValue:
        return CostValue(self.nanousd / NANOUSD_PER_USD)


Results = Callable[[UsageSum, Group], Iterable[GroupUsage | CostLine]]
"""From a group's sums and its dimensions to what is shown of it."""


class BucketRows(NamedTuple):
    bucket: Bucket
    results: Sequence[GroupUsage | CostLine]


class BucketRowsPage(NamedTuple):
    data: Sequence[BucketRows]
    next_page: str | None

    @property
    def has_more(self) -> bool:
        return self.next_page is not None


@dataclass(frozen=True, slots=True)
class UsageService:
    """`reader` is whose usage may be read: that of one organization, or None for everybody's.
    Raises ApiError 404 where a tenant asks for an organization that is not its own."""

    ledger: Store
    tenants: TenantStore
    clock: Clock
    reader: str | None

    async def used(
        self, query: UsageQuery, groups: Sequence[str], task: Task | None = None
    ) -> BucketRowsPage:
        """What models of a task used. None: all that have no list of their own."""
        whose = self._whose(query)
        page = self._page(query, query.bucket_width, query.buckets_max)
        if query.is_of_users:
            return _shaped(page, query.bucket_width, (), groups, _usage)
        if query.bucket_width is Width.MINUTE:
            span = page.from_us, page.to_us
            until_us = await asyncio.to_thread(busy_until, self.ledger, whose, *span, EVENTS_MAX)
            page = page.until(until_us)
        by = [BUCKETS[query.bucket_width], *_dimensions(groups)]
        rows = await asyncio.to_thread(self._of_task, whose, page, by, query, task)
        return _shaped(page, query.bucket_width, rows, groups, _usage)

    def _of_task(
        self,
        whose: str | None,
        page: BucketPage,
        by: list[GroupBy],
        query: OrganizationQuery,
        task: Task | None,
    ) -> list[UsageSum]:
        """Usage knows models, not tasks: sum by model, keep those of the task, then sum the
        rest."""
        tasks = {row.name: row.task for row in self.tenants.every(ModelRow)}
        only = query.only() | {GroupBy.STATUS: SERVED}
        by_model = [*dict.fromkeys((*by, GroupBy.MODEL))]
        rows = usage_summary(self.ledger, whose, page.from_us, page.to_us, by_model, only)
        listed = {name: each for name, each in tasks.items() if each in LISTED}
        return summed((row for row in rows if listed.get(row.group["model"]) is task), by)

    def unused(self, query: UsageQuery) -> BucketRowsPage:
        """Of what OpenAI counts and nothing here does."""
        self._whose(query)
        page = self._page(query, query.bucket_width, query.buckets_max)
        return _shaped(page, query.bucket_width, (), (), _usage)

    async def costs(self, query: CostsQuery) -> BucketRowsPage:
        """What was charged, by day and group."""
        page = self._page(query, Width.DAY, query.limit)
        names = [name for name in query.groups if name != "line_item"]
        by = [GroupBy.DAY, *_dimensions(names)]
        span = page.from_us, page.to_us
        rows = await asyncio.to_thread(
            usage_summary, self.ledger, self._whose(query), *span, by, query.only()
        )
        results = _line_items if "line_item" in query.groups else _cost
        return _shaped(page, Width.DAY, rows, names, results)

    def _whose(self, query: OrganizationQuery) -> str | None:
        if self.reader is not None and query.organization not in (None, self.reader):
            message = f"No organization '{query.organization}'."
            raise ApiError(404, message, param="organization", code="not_found")
        return self.reader if self.reader is not None else query.organization

    def _page(self, query: OrganizationQuery, width: Width, limit: int) -> BucketPage:
        now_s = int(self.clock())
        return page_of(query.start_time, query.end_time, width, limit, query.page, now_s)


def _dimensions(groups: Sequence[str]) -> list[GroupBy]:
    return [DIMENSIONS[name] for name in groups if name in DIMENSIONS]


def _shaped(
    page: BucketPage,
    width: Width,
    rows: Sequence[UsageSum],
    groups: Sequence[str],
    results: Results,
) -> BucketRowsPage:
    by_start: dict[int, list[GroupUsage | CostLine]] = {}
    for row in rows:
        group = {name: row.group[DIMENSIONS[name]] for name in groups if name in DIMENSIONS}
        by_start.setdefault(row.group[BUCKETS[width]], []).extend(results(row, group))
    return BucketRowsPage(
        [BucketRows(bucket, by_start.get(bucket.start_us(width), [])) for bucket in page.buckets],
        page.next_page,
    )


def _usage(row: UsageSum, group: Group) -> list[GroupUsage]:
    return [GroupUsage(row, group)]


def _cost(row: UsageSum, group: Group) -> list[CostLine]:
    return [CostLine(group, row.amount_nanousd)]


def _line_items(row: UsageSum, group: Group) -> list[CostLine]:
    """What nothing was used of has no line. Not every request owes the fee, so it has no count."""
    tokens = (
        ("input_tokens", row.input, row.input_nanousd),
        ("cached_input_tokens", row.cached_input, row.cached_input_nanousd),
        ("output_tokens", row.output, row.output_nanousd),
        ("cache_write_tokens", row.cache_write, row.cache_write_nanousd),
        ("reasoning_tokens", row.reasoning, row.reasoning_nanousd),
        ("audio_input_tokens", row.audio_input, row.audio_input_nanousd),
        ("image_input_tokens", row.image_input, row.image_input_nanousd),
        ("audio_output_tokens", row.audio_output, row.audio_output_nanousd),
        ("image_output_tokens", row.image_output, row.image_output_nanousd),
    )
    lines = [
        CostLine(group, nanousd, name, count, "tokens") for name, count, nanousd in tokens if count
    ]
    if row.gpu_ms_nanousd:
        lines.append(CostLine(group, row.gpu_ms_nanousd, "gpu_milliseconds", row.gpu_ms, "ms"))
    if row.units:
        lines.append(CostLine(group, row.units_nanousd, "units", row.units, "units"))
    by_call = (("requests", row.request_nanousd), ("minimum", row.minimum_nanousd))
    return lines + [CostLine(group, nanousd, name) for name, nanousd in by_call if nanousd]


async def reader_of(request: Request) -> str | None:
    """Whose usage the key may read."""
    if is_admin(request):
        return None
    try:
        return (await principal_of(request)).organization
    except ApiError as refused:
        if refused.status == 401:
            await refuse_wrong_key(request)
        raise


async def usage_of(
    request: Request, reader: Annotated[str | None, Depends(reader_of)]
) -> UsageService:
    parts = parts_of(request)
    return UsageService(parts.ledger, parts.tenants, parts.outside.clock, reader)


Usage = Annotated[UsageService, Depends(usage_of)]
