"""`/v1/organization`: usage and costs in OpenAI's own shapes, read from the hourly sums.

By the minute usage is read from the log, along an index and a bounded number of calls to a page: a
page may then have fewer buckets than were asked for, and says where the next one begins.

OpenAI asks for an admin key here. A tenant's key reads all usage of its own organization and never
another's; the admin key reads everybody's, or with `organization` that of one. Keys belong to
projects, not to users: no usage is a user's.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from billing.money import NANOUSD_PER_USD
from billing.queries import GroupBy, UsageSum, busy_until, summed, usage_summary
from gateway.api.asked import (
    OTHERS,
    Asked,
    AskedCompletions,
    AskedCosts,
    AskedEmbeddings,
    AskedOther,
    AskedUsage,
)
from gateway.api.buckets import Page, Width, page_of
from gateway.api.needs import is_admin, parts_of, principal_of
from gateway.errors import ApiError
from gateway.parts import Parts
from gateway.tables import ModelRow
from routing.types import Task

router = APIRouter(prefix="/v1/organization", tags=["public"])

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

Results = Callable[[UsageSum, Mapping[str, Any]], Iterable[dict[str, Any]]]
"""From a group's sums and its fields to what is shown of it."""


async def reader_of(request: Request) -> str | None:
    """Whose usage may be read: that of one organization, or None for everybody's."""
    if is_admin(request):
        return None
    return (await principal_of(request)).organization


Reader = Annotated[str | None, Depends(reader_of)]


@router.get("/usage/completions")
async def completions(
    request: Request, reader: Reader, asked: Annotated[AskedCompletions, Query()]
) -> dict[str, Any]:
    """Requests and tokens of everything but embeddings, by bucket and group."""
    page, rows = await _used(request, reader, asked, asked.groups, embeds=False)
    return _shaped(page, asked.bucket_width, rows, asked.groups, _completions_result)


@router.get("/usage/embeddings")
async def embeddings(
    request: Request, reader: Reader, asked: Annotated[AskedEmbeddings, Query()]
) -> dict[str, Any]:
    """Requests and tokens of the models that embed, by bucket and group."""
    page, rows = await _used(request, reader, asked, asked.groups, embeds=True)
    return _shaped(page, asked.bucket_width, rows, asked.groups, _embeddings_result)


async def others(
    request: Request, reader: Reader, asked: Annotated[AskedOther, Query()]
) -> dict[str, Any]:
    """Of what OpenAI counts and nothing here does: buckets in which nothing was used."""
    _whose(reader, asked)
    page = _page(request, asked, asked.bucket_width, asked.buckets_max)
    return _shaped(page, asked.bucket_width, (), (), _completions_result)


for kind in OTHERS:
    router.add_api_route(f"/usage/{kind}", others, name=kind)


@router.get("/costs")
async def costs(
    request: Request, reader: Reader, asked: Annotated[AskedCosts, Query()]
) -> dict[str, Any]:
    """What was charged, by day and group. `value` is a number, as OpenAI has it; exact amounts
    are the decimal strings of invoices."""
    page = _page(request, asked, Width.DAY, asked.limit)
    names = [name for name in asked.groups if name != "line_item"]
    by = [GroupBy.DAY, *(DIMENSIONS[name] for name in names)]
    ledger, whose = parts_of(request).ledger, _whose(reader, asked)
    rows = await asyncio.to_thread(
        usage_summary, ledger, whose, page.from_us, page.to_us, by, asked.only()
    )
    result = _line_items if "line_item" in asked.groups else _cost
    return _shaped(page, Width.DAY, rows, names, result)


def _whose(reader: str | None, asked: Asked) -> str | None:
    """Raises ApiError 404 where a tenant asks for an organization that is not its own."""
    if reader is not None and asked.organization not in (None, reader):
        message = f"No organization '{asked.organization}'."
        raise ApiError(404, message, param="organization", code="not_found")
    return reader if reader is not None else asked.organization


def _page(request: Request, asked: Asked, width: Width, limit: int) -> Page:
    now_s = int(parts_of(request).outside.clock())
    return page_of(asked.start_time, asked.end_time, width, limit, asked.page, now_s)


async def _used(
    request: Request, reader: str | None, asked: AskedUsage, groups: Sequence[str], *, embeds: bool
) -> tuple[Page, list[UsageSum]]:
    """The page as far as it was read, and what was used in it."""
    parts, whose = parts_of(request), _whose(reader, asked)
    page = _page(request, asked, asked.bucket_width, asked.buckets_max)
    if asked.is_of_users:
        return page, []
    if asked.bucket_width is Width.MINUTE:
        span = page.from_us, page.to_us
        read = await asyncio.to_thread(busy_until, parts.ledger, whose, *span, EVENTS_MAX)
        page = page.until(read)
    by = [BUCKETS[asked.bucket_width], *_dimensions(groups)]
    rows = await asyncio.to_thread(_of_task, parts, whose, page, by, asked, embeds=embeds)
    return page, rows


def _dimensions(groups: Sequence[str]) -> list[GroupBy]:
    return [DIMENSIONS[name] for name in groups if name in DIMENSIONS]


def _of_task(
    parts: Parts, whose: str | None, page: Page, by: list[GroupBy], asked: Asked, *, embeds: bool
) -> list[UsageSum]:
    """Usage knows models, not tasks: sum by model, keep those of the task, then sum the rest."""
    embedding = {row.name for row in parts.tenants.every(ModelRow, {"task": Task.EMBED})}
    only = asked.only() | {GroupBy.STATUS: SERVED}
    by_model = [*dict.fromkeys((*by, GroupBy.MODEL))]
    rows = usage_summary(parts.ledger, whose, page.from_us, page.to_us, by_model, only)
    return summed((row for row in rows if (row.group["model"] in embedding) == embeds), by)


def _shaped(
    page: Page, width: Width, rows: Sequence[UsageSum], groups: Sequence[str], result: Results
) -> dict[str, Any]:
    by_start: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        named = {name: row.group[DIMENSIONS[name]] for name in groups if name in DIMENSIONS}
        by_start.setdefault(row.group[BUCKETS[width]], []).extend(result(row, named))
    data = [
        {
            "object": "bucket",
            "start_time": bucket.from_s,
            "end_time": bucket.to_s,
            "results": by_start.get(bucket.start_us(width), []),
        }
        for bucket in page.buckets
    ]
    return {
        "object": "page",
        "data": data,
        "has_more": page.next_page is not None,
        "next_page": page.next_page,
    }


def _completions_result(row: UsageSum, named: Mapping[str, Any]) -> list[dict[str, Any]]:
    batch = {"batch": bool(named["batch"])} if "batch" in named else {}
    return [
        {
            "object": "organization.usage.completions.result",
            "input_tokens": row.input + row.cached_input + row.cache_write,
            "input_cached_tokens": row.cached_input,
            "input_cache_write_tokens": row.cache_write,
            "input_uncached_tokens": row.input,
            "output_tokens": row.output + row.reasoning,
            "input_text_tokens": row.input,
            "input_cached_text_tokens": row.cached_input,
            "output_text_tokens": row.output + row.reasoning,
            "input_audio_tokens": 0,
            "input_cached_audio_tokens": 0,
            "output_audio_tokens": 0,
            "input_image_tokens": 0,
            "input_cached_image_tokens": 0,
            "output_image_tokens": 0,
            "num_model_requests": row.requests,
            "user_id": None,
            **dict.fromkeys(DIMENSIONS),
            **named,
            **batch,
        }
    ]


def _embeddings_result(row: UsageSum, named: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "object": "organization.usage.embeddings.result",
            "input_tokens": row.input + row.cached_input + row.cache_write,
            "num_model_requests": row.requests,
            "project_id": None,
            "user_id": None,
            "api_key_id": None,
            "model": None,
            **named,
        }
    ]


def _cost(row: UsageSum, named: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_item(named, row.amount_nanousd)]


def _line_items(row: UsageSum, named: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What nothing was used of has no line. Not every request owes the fee, so it has no count."""
    tokens = (
        ("input_tokens", row.input, row.input_nanousd),
        ("cached_input_tokens", row.cached_input, row.cached_input_nanousd),
        ("output_tokens", row.output, row.output_nanousd),
        ("cache_write_tokens", row.cache_write, row.cache_write_nanousd),
        ("reasoning_tokens", row.reasoning, row.reasoning_nanousd),
    )
    found = [
        _item(named, nanousd, line_item=name, quantity=count, quantity_unit="tokens")
        for name, count, nanousd in tokens
        if count
    ]
    if row.gpu_ms_nanousd:
        gpu = {"line_item": "gpu_milliseconds", "quantity": row.gpu_ms, "quantity_unit": "ms"}
        found.append(_item(named, row.gpu_ms_nanousd, **gpu))
    by_call = (("requests", row.request_nanousd), ("minimum", row.minimum_nanousd))
    return found + [_item(named, nanousd, line_item=name) for name, nanousd in by_call if nanousd]


def _item(named: Mapping[str, Any], nanousd: int, **more: Any) -> dict[str, Any]:
    return {
        "object": "organization.costs.result",
        "amount": {"value": nanousd / NANOUSD_PER_USD, "currency": "usd"},
        "line_item": None,
        "project_id": None,
        "api_key_id": None,
        "quantity": None,
        "quantity_unit": None,
        **named,
        **more,
    }
