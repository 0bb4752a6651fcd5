"""Policies over the admin API: a version from a draft into force and back, and what is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from gateway.tenants.tables import Audit
from tests.gateway.api.described import assert_described
from tests.gateway.edge import Edge, edge
from tests.gateway.policies.stored import HEAD, document
from tests.redis_server import RedisServer

WHY = {"comment": "because"}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def ask(one: Edge, method: str, path: str, sent: Any = None) -> tuple[int, Any]:
    """Every answer is one that is described."""
    transport = httpx.ASGITransport(app=one.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        named = {"authorization": "Bearer admin"}
        target = f"/admin/v1/policies{path}"
        named["content-type"] = "application/json"
        content = None if sent is None else json.dumps(sent)
        answer = await http.request(method, target, content=content, headers=named)
        assert_described(one.app, method, target, answer.status_code, answer.json())
        return answer.status_code, answer.json()


async def stored(one: Edge, rule: str) -> int:
    status, policy = await ask(one, "POST", "", {"document": document(rule), **WHY})
    assert (status, policy["status"]) == (201, "draft"), policy
    return int(policy["version"])


async def active(one: Edge) -> int:
    return int((await ask(one, "GET", "/active"))[1]["version"])


async def test_a_fresh_gateway_has_the_shipped_policy_active_as_a_version(one: Edge) -> None:
    status, now = await ask(one, "GET", "/active")
    assert (status, now["version"], now["status"], now["author"]) == (200, 1, "active", "sluice")
    [gateway] = now["gateways"]
    assert (gateway["id"], gateway["version"]) == (one.gateway_id, 1)
    assert gateway["since"] and gateway["broken"] is None
    _, policy = await ask(one, "GET", "/1")
    assert "kind: RoutingPolicy" in policy["document"]


async def test_g49_a_version_goes_from_a_draft_into_force_and_back(one: Edge) -> None:
    first, second = await stored(one, "a"), await stored(one, "b")
    assert (first, second) == (2, 3) and await active(one) == 1
    for version in (first, second):
        status, policy = await ask(one, "POST", f"/{version}/activate", WHY)
        assert (status, policy["version"], policy["status"]) == (200, version, "active")
        assert policy["activation_comment"] == "because" and policy["activated_at"]
        assert one.parts.policy_keeper.version == version, "this gateway runs it at once"
    _, page = await ask(one, "GET", "?limit=2")
    assert [(p["version"], p["status"]) for p in page["data"]] == [(3, "active"), (2, "retired")]
    assert page["has_more"] and "document" not in page["data"][0]
    _, page = await ask(one, "GET", f"?after={page['after']}")
    assert [p["version"] for p in page["data"]] == [1] and page["after"] is None
    for expected in (first, 1):
        status, policy = await ask(one, "POST", "/rollback", WHY)
        assert (status, policy["version"], policy["status"]) == (200, expected, "active")
    status, error = await ask(one, "POST", "/rollback", WHY)
    assert (status, error["error"]["message"]) == (409, "No version was active before this one.")
    status, policy = await ask(one, "POST", "/rollback", {**WHY, "to": second})
    assert (status, policy["version"]) == (200, second)


async def test_each_change_is_in_the_audit_log(one: Edge) -> None:
    version = await stored(one, "a")
    await ask(one, "POST", f"/{version}/activate", WHY)
    await ask(one, "POST", "/rollback", {"comment": "it was wrong"})
    rows = [row for row in one.parts.tenants.every(Audit) if row.action.startswith("policy.")]
    assert [(row.actor, row.action, row.object) for row in rows] == [
        ("sluice", "policy.activate", "1"),
        ("admin", "policy.create", "2"),
        ("admin", "policy.activate", "2"),
        ("admin", "policy.rollback", "1"),
    ]
    assert rows[2].detail == {"comment": "because", "before": 1}


async def test_a_dry_run_checks_and_stores_nothing(one: Edge) -> None:
    status, checked = await ask(one, "POST", "?dry_run=true", {"document": document("a")})
    assert (status, checked["valid"], checked["version"]) == (200, True, None)
    assert (checked["rules"], checked["errors"]) == (1, [])
    assert checked["warnings"] == []
    idle = HEAD + "rules: []\ndefault: {route: {allow_fallbacks: false, fallbacks: [tale]}}\n"
    status, checked = await ask(one, "POST", "?dry_run=true", {"document": idle})
    assert (status, checked["valid"]) == (200, True)
    assert [(each["line"], each["column"]) for each in checked["warnings"]] == [(4, 43)]
    status, error = await ask(one, "POST", "?dry_run=true", {"document": "rules: 7"})
    assert (status, error["error"]["param"]) == (400, "document")
    assert len((await ask(one, "GET", ""))[1]["data"]) == 1


TEST = "tests: [{name: t, input: {req.stream: true}, expect: {rule: default}}]\n"
WRONG = [
    (HEAD + "rules: []\ndefault: {route: {only: [pool:tale-reservd]}}", [(4, 26)]),
    (HEAD + "rules: []\n", [(1, 1)]),
    (HEAD + "rules: [{id: a, when: [], route: {}}, {id: b, when: [], route: {}}]\n"
     "default: {route: {}}", [(3, 39)]),
    (HEAD + "rules: 7\ndefault: {route: {sort: 3}}", [(3, 8), (4, 25)]),
    (HEAD + "rules: []\ndefault: {route: {order: [pool:unpriced]}}", [(4, 27)]),
    (HEAD + "rules: []\ndefault: {route: {fallbacks: [free]}}", [(4, 31)]),
    (HEAD + "rules: [{id: a, when: ['req.metadata.exists(k, true)'], route: {}}]\n"
     "default: {route: {}}", [(3, 44)]),
    ("a: b\n" * 200_000, [(1, 1)]),
    (document("a") + TEST, [(5, 61)]),
    ("a: \ud800", [(1, 1)]),
]  # fmt: skip


async def test_what_is_wrong_is_refused_at_its_place_and_changes_nothing(one: Edge) -> None:
    await unpriced_pool(one)
    for text, places in WRONG:
        status, answer = await ask(one, "POST", "", {"document": text, **WHY})
        error = answer["error"]
        assert (status, error["param"], error["code"]) == (400, "document", "invalid_policy")
        found = [(each["line"], each["column"]) for each in error["errors"]]
        assert found == places, (text[:300], error)
        assert error["errors"][0]["message"] in error["message"]
    assert [p["version"] for p in (await ask(one, "GET", ""))[1]["data"]] == [1]


async def unpriced_pool(one: Edge) -> None:
    transport = httpx.ASGITransport(app=one.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        named = {"authorization": "Bearer admin"}
        outside = {"context_tokens": 4096, "max_output_tokens": 64, "size_rank": 1, "quality": 0.1}
        answer = await http.put("/admin/v1/models/free", json=outside, headers=named)
        assert answer.status_code == 200, answer.text
        pool = {
            "model": "free",
            "capacity_class": "external",
            "base_url": "https://api.example.com/v1",
            "upstream_model": "theirs",
        }
        answer = await http.put("/admin/v1/pools/unpriced", json=pool, headers=named)
        assert answer.status_code == 200, answer.text


async def test_a_version_that_is_no_longer_valid_does_not_come_into_force(one: Edge) -> None:
    await unpriced_pool(one)
    text = HEAD + "rules: []\ndefault: {route: {ignore: [pool:unpriced]}}\n"
    _, policy = await ask(one, "POST", "", {"document": text})
    path = f"/{policy['version']}"
    assert (await ask(one, "POST", f"{path}/validate"))[1]["valid"]
    transport = httpx.ASGITransport(app=one.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        named = {"authorization": "Bearer admin"}
        await http.delete("/admin/v1/pools/unpriced", headers=named)
    status, checked = await ask(one, "POST", f"{path}/validate")
    assert (status, checked["valid"], checked["version"]) == (200, False, policy["version"])
    assert "unknown pool 'unpriced'" in checked["errors"][0]["message"]
    status, error = await ask(one, "POST", f"{path}/activate", WHY)
    assert (status, error["error"]["param"]) == (400, "document")
    assert await active(one) == 1


async def test_of_two_activations_at_once_one_wins_and_the_other_is_told(one: Edge) -> None:
    versions = [await stored(one, rule) for rule in "ab"]
    answers = await asyncio.gather(
        *(ask(one, "POST", f"/{v}/activate", {**WHY, "expects": 1}) for v in versions)
    )
    assert sorted(status for status, _ in answers) == [200, 409]
    [winner] = [version for version, (s, _) in zip(versions, answers, strict=True) if s == 200]
    [told] = [answer for status, answer in answers if status == 409]
    assert told["error"]["message"] == f"version {winner} is active, and not 1"
    assert await active(one) == winner


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/1/activate", {}, 400, "comment"),
        ("/1/activate", {"comment": "  "}, 400, "comment"),
        ("/1/activate", {"comment": "x", "expects": 7}, 409, None),
        ("/1/activate", {"comment": "x"}, 409, None),
        ("/9/activate", {"comment": "x"}, 404, None),
        ("/0/activate", {"comment": "x"}, 400, "version"),
        ("/a/activate", {"comment": "x"}, 400, "version"),
        ("/rollback", {}, 400, "comment"),
        ("/rollback", {"comment": "x", "to": "1"}, 400, "to"),
        ("/rollback", {"comment": "x", "to": 9}, 404, None),
        ("", {}, 400, "document"),
        ("", {"document": 7}, 400, "document"),
        ("", {"document": "a", "more": 1}, 400, "more"),
    ],
)
async def test_a_wrong_request_names_its_field(
    one: Edge, path: str, body: dict[str, Any], status: int, param: str | None
) -> None:
    answered, answer = await ask(one, "POST", path, body)
    assert (answered, answer["error"]["param"]) == (status, param), answer


async def test_a_draft_is_activated_and_not_rolled_back_to(one: Edge) -> None:
    version = await stored(one, "a")
    status, error = await ask(one, "POST", "/rollback", {**WHY, "to": version})
    assert status == 409 and "was never active" in error["error"]["message"]


async def test_the_schema_lists_what_a_document_and_its_clauses_may_say(one: Edge) -> None:
    _, found = await ask(one, "GET", "/schema")
    assert {"rules", "default", "tests"} <= found["properties"].keys()
    assert "only" in found["$defs"]["RouteWords"]["properties"]
    names = {each["name"]: each["type"] for each in found["attributes"]["data"]}
    assert names["req.est_tokens"] == "int" and names["req.metadata"] == "map(string, string)"
    assert json.dumps(found)
