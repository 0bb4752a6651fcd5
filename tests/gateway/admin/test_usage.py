"""`/v1/organization` and `/admin/v1/usage`: who sees what, in whose shape, every exact no."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import msgspec
import pytest
from openai import AsyncOpenAI
from redis.asyncio import Redis

from billing.ledger import booking
from billing.ledger.booking import Record
from billing.prices.book import Component, PriceRate, PriceVersion, make_book
from billing.prices.rating import rate_frozen
from billing.types import CallStatus, SettledCall, encode
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID, PROJECT_ID
from gateway.public.usage.schemas import OTHERS
from tests.billing.calls import opened_call, settled_call
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, Edge, edge
from tests.redis_server import RedisServer

DAY_S = 86_400
MIDNIGHT_S = 20_700 * DAY_S
HOUR_S = 3_600
PRICES = {
    Component.INPUT: 2_000_000_000,
    Component.OUTPUT: 4_000_000_000,
    Component.REQUEST: 10**12,
}
BOOK = make_book(
    [
        PriceVersion(
            "pv",
            1,
            None,
            tuple(
                PriceRate(model=model, tier=tier, component=part, nanousd_per_mtok=price)
                for model in ("tale", "vectors")
                for tier in ("default", "flex")
                for part, price in PRICES.items()
            ),
        )
    ]
)
"""A prompt token costs 2000 nano-USD, one of output 4000, a request 1 000 000."""


def call(rid: str, at_s: int, **changes: Any) -> SettledCall:
    opened = opened_call(
        rid,
        org=changes.pop("org", ORGANIZATION_ID),
        project=changes.pop("project", PROJECT_ID),
        key=changes.pop("key", KEY_ID),
        model=changes.pop("model", "tale"),
        tier=changes.pop("tier", "default"),
        price_version="pv",
        admitted_us=(at_s - 1) * 1_000_000,
    )
    made = settled_call(opened, 0, ended_us=at_s * 1_000_000, **changes)
    charge = rate_frozen(
        BOOK, model=made.model, tier=made.tier, batch=False, usage=made.usage, price_version="pv"
    )
    return msgspec.structs.replace(made, amount_nanousd=charge.amount_nanousd)


CALLS = [
    call("r1", MIDNIGHT_S, input=40, cached_input=10, output=5),
    call("r2", MIDNIGHT_S + HOUR_S, input=1, output=2, tier="flex", key="key_2"),
    call("r3", MIDNIGHT_S + DAY_S, input=3, output=4, project="proj_2", key="key_3"),
    call("r4", MIDNIGHT_S + HOUR_S, model="vectors", input=9, output=0),
    call("r5", MIDNIGHT_S + HOUR_S, status=CallStatus.REFUSED, input=0, output=0),
    call("r6", MIDNIGHT_S + HOUR_S, org="org_other", project="p", key="k", input=100, output=0),
]


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    """With calls on two days, of two organizations, one of them an embedding, one refused."""
    async with edge(redis_server, redis, tmp_path) as running:
        records = [Record(0, f"{n}-0", "settled", c.rid, encode(c)) for n, c in enumerate(CALLS)]
        with running.parts.ledger.write() as conn:
            batch = booking.read(records, BOOK, 2 * MIDNIGHT_S * 1_000_000)
            assert booking.book(conn, batch).events == len(CALLS)
        yield running


def client(one: Edge) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app=one.app), base_url="http://gateway/v1"
    )


async def asked(one: Edge, target: str, key: str = API_KEY) -> httpx.Response:
    async with client(one) as http:
        headers = {"authorization": f"Bearer {key}"}
        answer = await http.get(f"http://gateway{target}", headers=headers)
    is_json = answer.headers["content-type"] == "application/json"
    if answer.status_code == 200 and is_json and target != "/openapi.json":
        assert_described(one.app, "GET", target, 200, answer.json())
    return answer


async def buckets(one: Edge, what: str, key: str = API_KEY) -> list[Any]:
    span = f"start_time={MIDNIGHT_S}&end_time={MIDNIGHT_S + 2 * DAY_S}"
    target = f"/v1/organization/{what}{'&' if '?' in what else '?'}{span}"
    answer = await asked(one, target, key)
    assert answer.status_code == 200, answer.text
    return [bucket["results"] for bucket in answer.json()["data"]]


async def test_completions_are_summed_by_day_without_embeddings_and_refusals(one: Edge) -> None:
    first, second = await buckets(one, "usage/completions")
    (sums,) = first
    assert (sums["input_tokens"], sums["input_cached_tokens"]) == (51, 10)
    assert (sums["output_tokens"], sums["num_model_requests"]) == (7, 2)
    assert (sums["model"], sums["user_id"], sums["batch"]) == (None, None, None)
    assert [result["num_model_requests"] for result in second] == [1]


async def test_embeddings_are_those_of_models_that_embed(one: Edge) -> None:
    first, second = await buckets(one, "usage/embeddings?group_by=model")
    assert second == []
    assert first == [
        {
            "object": "organization.usage.embeddings.result",
            "input_tokens": 9,
            "num_model_requests": 1,
            "project_id": None,
            "user_id": None,
            "api_key_id": None,
            "model": "vectors",
        }
    ]


async def test_groups_and_filters_are_those_asked_for(one: Edge) -> None:
    first, _ = await buckets(
        one, "usage/completions?group_by=service_tier&group_by[]=api_key_id&group_by=batch"
    )
    assert [(r["service_tier"], r["api_key_id"], r["batch"]) for r in first] == [
        ("default", KEY_ID, False),
        ("flex", "key_2", False),
    ]
    for narrowed, days in {
        "project_ids=proj_2": [0, 1],
        "api_key_ids[]=key_2": [1, 0],
        f"api_key_ids=key_2&api_key_ids={KEY_ID}": [1, 0],
        "models=tale": [1, 1],
        "models=nothing": [0, 0],
        "batch=true": [0, 0],
    }.items():
        found = await buckets(one, f"usage/completions?{narrowed}")
        assert [len(results) for results in found] == days, narrowed


async def test_costs_add_up_to_what_was_charged(one: Edge) -> None:
    def total(results: list[Any]) -> float:
        return round(sum(result["amount"]["value"] for result in results), 9)

    owed = sum(c.amount_nanousd for c in CALLS if c.org == ORGANIZATION_ID) / 1e9
    days = await buckets(one, "costs")
    assert round(sum(map(total, days)), 9) == owed
    by_item = await buckets(one, "costs?group_by=line_item&group_by=project_id")
    assert [total(day) for day in by_item] == [total(day) for day in days]
    lines = {line["line_item"]: line for line in by_item[0]}
    assert lines["output_tokens"]["amount"] == {"value": 0.000028, "currency": "usd"}
    assert (lines["output_tokens"]["quantity"], lines["output_tokens"]["quantity_unit"]) == (
        7,
        "tokens",
    )
    assert lines["requests"]["quantity"] is None


async def test_tenant_sees_its_own_organization_only(one: Edge) -> None:
    path = f"/v1/organization/usage/completions?start_time={MIDNIGHT_S}"
    assert (await asked(one, f"{path}&organization={ORGANIZATION_ID}")).status_code == 200
    refused = await asked(one, f"{path}&organization=org_other")
    assert (refused.status_code, refused.json()["error"]["param"]) == (404, "organization")
    assert (await asked(one, path, key="sk-nobody")).status_code == 401


async def test_admin_sees_everybody_or_the_one_asked_for(one: Edge) -> None:
    everybody, _ = await buckets(one, "usage/completions", key="admin")
    assert everybody[0]["input_tokens"] == 151
    other, _ = await buckets(one, "usage/completions?organization=org_other", key="admin")
    assert other[0]["input_tokens"] == 100


async def test_minutes_are_read_a_bounded_number_of_calls_at_a_time(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    span = f"start_time={MIDNIGHT_S - 120}&end_time={MIDNIGHT_S + HOUR_S + 60}&bucket_width=1m"
    target = f"/v1/organization/usage/completions?{span}&limit=1440&group_by=service_tier"
    whole = (await asked(one, target)).json()
    assert not whole["has_more"] and len(whole["data"]) == 63
    used = [(b["start_time"], b["results"]) for b in whole["data"] if b["results"]]
    assert [at for at, _ in used] == [MIDNIGHT_S, MIDNIGHT_S + HOUR_S]
    assert [(r["service_tier"], r["input_tokens"]) for r in used[1][1]] == [("flex", 1)]
    monkeypatch.setattr("gateway.public.usage.service.EVENTS_MAX", 1)
    joined: list[Any] = []
    page, pages = "", 0
    while page is not None:
        found = (await asked(one, f"{target}{page and '&page='}{page}")).json()
        joined += found["data"]
        page, pages = found["next_page"], pages + 1
    assert joined == whole["data"] and pages == 2


async def test_no_usage_is_a_users(one: Edge) -> None:
    (sums,), _ = await buckets(one, "usage/completions?group_by=user_id&group_by=model")
    assert (sums["user_id"], sums["model"], sums["num_model_requests"]) == (None, "tale", 2)
    assert await buckets(one, "usage/completions?user_ids[]=user_1") == [[], []]


@pytest.mark.parametrize("kind", OTHERS)
async def test_what_cannot_be_used_here_was_not_used(one: Edge, kind: str) -> None:
    assert await buckets(one, f"usage/{kind}?group_by=project_id&bucket_width=1d") == [[], []]
    assert (
        await asked(one, f"/v1/organization/usage/{kind}?start_time=5", "no")
    ).status_code == 401


async def test_pages_join_to_the_whole_and_a_cut_bucket_says_what_it_sums(one: Edge) -> None:
    start_s, end_s = MIDNIGHT_S + 10, MIDNIGHT_S + DAY_S + 1
    span = f"start_time={start_s}&end_time={end_s}&bucket_width=1h&limit=10"
    found: list[Any] = []
    page = ""
    while True:
        answer = (await asked(one, f"/v1/organization/usage/completions?{span}{page}")).json()
        found += answer["data"]
        assert answer["has_more"] == (answer["next_page"] is not None)
        if not answer["has_more"]:
            break
        page = f"&page={answer['next_page']}"
    assert len(found) == 25
    assert [bucket["start_time"] for bucket in found[1:]] == [b["end_time"] for b in found[:-1]]
    assert (found[0]["start_time"], found[-1]["end_time"]) == (start_s, end_s)
    used = {b["start_time"] for b in found if b["results"]}
    assert used == {MIDNIGHT_S + HOUR_S, MIDNIGHT_S + DAY_S}  # r1 ended before the span began


@pytest.mark.parametrize(
    ("what", "param"),
    [
        ("usage/completions", "start_time"),
        ("usage/completions?start_time=yesterday", "start_time"),
        ("usage/completions?start_time=5&end_time=5", "end_time"),
        ("usage/completions?start_time=5&limit=32", "limit"),
        ("usage/completions?start_time=5&limit=169&bucket_width=1h", "limit"),
        ("usage/completions?start_time=5&limit=1441&bucket_width=1m", "limit"),
        ("usage/completions?start_time=5&bucket_width=1s", "bucket_width"),
        ("usage/completions?start_time=5&limit=0", "limit"),
        ("usage/completions?start_time=5&group_by=size", "group_by.0"),
        ("usage/images?start_time=5&group_by=batch", "group_by.0"),
        ("usage/images?start_time=5&colours=red", "colours"),
        ("usage/completions?start_time=5&models=%00", "models.0"),
        ("usage/completions?start_time=5&batch=maybe", "batch"),
        ("usage/completions?start_time=5&page=page_next", "page"),
        ("usage/completions?start_time=5&page=page_AAAAAAAAAAc%3D", "page"),
        ("usage/embeddings?start_time=5&group_by=service_tier", "group_by.0"),
        ("usage/embeddings?start_time=5&batch=true", "batch"),
        ("costs?start_time=5&bucket_width=1h", "bucket_width"),
        ("costs?start_time=5&limit=181", "limit"),
        ("costs?start_time=5&models=tale", "models"),
    ],
)
async def test_wrong_parameter_is_named(one: Edge, what: str, param: str) -> None:
    answer = await asked(one, f"/v1/organization/{what}")
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (
        400,
        "invalid_request_error",
        param,
    )


async def test_openai_client_reads_usage_and_costs(one: Edge) -> None:
    async with client(one) as http:
        openai = AsyncOpenAI(
            api_key="unused", admin_api_key="admin", base_url=str(http.base_url), http_client=http
        )
        usage = openai.admin.organization.usage
        found = await usage.completions(
            start_time=MIDNIGHT_S, end_time=MIDNIGHT_S + DAY_S, group_by=["model", "project_id"]
        )
        assert {result.model for result in found.data[0].results} == {"tale"}
        paid = await usage.costs(start_time=MIDNIGHT_S, limit=1, group_by=["line_item"])
        assert paid.has_more
        assert {result.amount.currency for result in paid.data[0].results} == {"usd"}


async def rows(one: Edge, query: str) -> dict[str, Any]:
    span = f"start_time={MIDNIGHT_S}&end_time={MIDNIGHT_S + 2 * DAY_S}"
    answer = await asked(one, f"/admin/v1/usage?{span}&{query}", key="admin")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_admin_usage_has_a_row_for_each_group_and_bucket(one: Edge) -> None:
    whole = await rows(one, f"organization={ORGANIZATION_ID}")
    assert [(row["group"], row["requests"]) for row in whole["data"]] == [({}, 5)]
    found = await rows(one, "bucket_width=1d&group_by=org&group_by=status")
    assert [
        (row["from"][:10], *row["group"].values(), row["requests"]) for row in found["data"]
    ] == [
        ("2026-09-04", ORGANIZATION_ID, "answered", 3),
        ("2026-09-04", ORGANIZATION_ID, "refused", 1),
        ("2026-09-04", "org_other", "answered", 1),
        ("2026-09-05", ORGANIZATION_ID, "answered", 1),
    ]


async def test_pages_of_admin_usage_join_to_the_whole(one: Edge) -> None:
    query = "group_by=model&group_by=key&group_by=batch&bucket_width=1h"
    whole = await rows(one, query)
    assert (whole["has_more"], whole["next_page"]) == (False, None)
    joined: list[Any] = []
    page = ""
    for _ in whole["data"]:
        found = await rows(one, f"{query}&limit=1{page}")
        joined += found["data"]
        page = f"&page={found['next_page']}"
    assert joined == whole["data"]
    assert found["next_page"] is None


async def test_admin_usage_as_csv_says_the_same(one: Edge) -> None:
    span = f"start_time={MIDNIGHT_S}&end_time={MIDNIGHT_S + 2 * DAY_S}"
    query = "group_by=model&bucket_width=1d"
    answer = await asked(one, f"/admin/v1/usage?{span}&{query}&format=csv&limit=2", key="admin")
    assert answer.headers["content-type"].startswith("text/csv")
    assert answer.headers["x-sluice-next-page"]
    lines = list(csv.DictReader(io.StringIO(answer.text)))
    data = (await rows(one, query))["data"][:2]
    assert [(line["from"], line["model"], line["output"], line["cost_usd"]) for line in lines] == [
        (row["from"], row["group"]["model"], str(row["usage"]["output"]), row["cost_usd"])
        for row in data
    ]
    assert {"requests", "cached_input", "cache_write", "reasoning", "gpu_ms"} <= lines[0].keys()


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("group_by=month", "group_by.0"),
        ("group_by=key&group_by=key", "group_by"),
        ("group_by=day&bucket_width=1d", "group_by"),
        ("bucket_width=1m", "bucket_width"),
        ("group_by=minute", "group_by.0"),
        ("limit=0", "limit"),
        ("limit=10001", "limit"),
        ("format=xml", "format"),
        ("page=next", "page"),
        ("group_by=key&page=WzFd", "page"),  # [1]: no key is a number
        ("group_by=key&page=WyJcdWQ4MDAiXQ==", "page"),  # half of a character
        ("group_by=hour&page=W3RydWVd", "page"),  # [true]
        ("start_time=9&end_time=8", "end_time"),
    ],
)
async def test_wrong_question_to_admin_usage_is_named(one: Edge, query: str, param: str) -> None:
    answer = await asked(one, f"/admin/v1/usage?{query}", key="admin")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_routes_and_parameters_are_described(one: Edge) -> None:
    paths = (await asked(one, "/openapi.json")).json()["paths"]
    for path in ("usage/completions", "usage/embeddings", "costs"):
        described = paths[f"/v1/organization/{path}"]["get"]["parameters"]
        assert {"start_time", "group_by", "page"} <= {one["name"] for one in described}
