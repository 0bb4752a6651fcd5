"""The routing policy in the console: written, refused at its place, activated and taken back."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisAway

from billing.db.engine import open_store
from gateway.console.pages.policies.text import marked_lines
from gateway.policies.shipped import shipped_document
from gateway.tenants.tables import Audit
from routing.policy.conditions import Mistake
from tests.gateway.console.test_pages import HOSTILE, browser, sign_in
from tests.gateway.edge import CHAT, KEY_ID, Edge, body, edge
from tests.redis_server import RedisServer

SHIPPED = shipped_document()
LONG = """rules:
  - id: long-prompts
    when: ['req.est_tokens > 32000']
    route: {only: ['pool:tale-spot']}
"""
RULE = SHIPPED.replace("rules:\n", LONG)
WRONG = RULE.replace("req.est_tokens", "req.est_token")
MISTAKES = st.lists(st.builds(Mistake, st.integers(1, 9), st.integers(1, 30), st.just("wrong")))


@given(st.text(st.characters(exclude_characters="\r")), MISTAKES)
def test_marks_change_no_text_and_leave_no_mistake_out(text: str, mistakes: list[Mistake]) -> None:
    lines = marked_lines(text, mistakes)
    written = text.split("\n")
    assert len(lines) == len(written)
    for line, own in zip(lines, written, strict=True):
        shown = "".join(piece.text for piece in line.pieces)
        assert shown in (own, f"{own} "), "where nothing stands, a space is marked"
        assert line.is_wrong == any(piece.message for piece in line.pieces)
    wrong = {min(mistake.line, len(written)) for mistake in mistakes}
    assert {line.number for line in lines if line.is_wrong} == wrong


def test_word_at_the_place_is_marked_and_no_more() -> None:
    def pieces(text: str, column: int) -> list[str]:
        [line] = marked_lines(text, [Mistake(1, column, "unknown")])
        return [piece.text for piece in line.pieces]

    assert pieces("['req.est_token > 3']", 6) == ["['", "req.est_token", " > 3']"]
    assert pieces("only: ['pool:a', b]", 8) == ["only: [", "'pool:a", "', b]"]
    assert pieces("{a}", 3) == ["{a", "}"]


@pytest.fixture
async def running(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as opened:
        yield opened


@asynccontextmanager
async def console(running: Edge) -> AsyncIterator[Any]:
    async with browser(running) as client:
        await sign_in(client)
        yield client


async def store(client: Any, document: str, comment: str = "") -> Any:
    sent = {"document": document.replace("\n", "\r\n"), "comment": comment, "act": "store"}
    return await client.post("/console/policies/edit", data=sent)


async def activate(client: Any, version: int, **fields: str) -> Any:
    return await client.post(f"/console/policies/{version}/activate", data=fields)


def audited(running: Edge) -> list[tuple[str, str]]:
    rows = running.parts.tenants.every(Audit)
    return [(row.action, row.object) for row in rows if row.action.startswith("policy.")]


async def test_rule_is_written_refused_mended_activated_and_taken_back(running: Edge) -> None:
    async with console(running) as client:
        refused = await store(client, WRONG)
        assert refused.status_code == 400
        assert '<mark title="unknown attribute or function' in refused.text
        line = WRONG[: WRONG.index("req.est_token ")].count("\n") + 1
        assert f">{line}:16</a> unknown attribute or function" in refused.text
        stored = await store(client, RULE, "Long prompts go to spot")
        assert (stored.status_code, stored.headers["location"]) == (303, "/console/policies/2")
        draft = (await client.get("/console/policies/2")).text
        assert "<b>added</b> rule <code>long-prompts</code>" in draft and "as number 1" in draft
        unsaid = await activate(client, 2, expects="1", comment=" ")
        assert (unsaid.status_code, "Say why" in unsaid.text) == (400, True)
        done = await activate(client, 2, expects="1", comment="Spot is half the price")
        assert (done.status_code, done.headers["location"]) == (303, "/console/policies")
        assert running.parts.policy_keeper.version == 2
        page = (await client.get("/console/policies")).text
        assert "Spot is half the price" in page and "Roll back to version 1" in page
        await client.post("/console/policies/rollback", data={"comment": "Too slow"})
        assert running.parts.policy_keeper.version == 1
    assert audited(running)[-3:] == [
        ("policy.create", "2"),
        ("policy.activate", "2"),
        ("policy.rollback", "1"),
    ]


async def test_document_that_is_stored_is_the_one_that_was_written(running: Edge) -> None:
    async with console(running) as client:
        await store(client, RULE)
        shown = (await client.get("/console/policies/edit?version=2")).text
        written = re.search(r"<textarea[^>]*>\n(.*)</textarea>", shown, re.S)
        assert written is not None and "req.est_tokens &gt; 32000" in written[1]
    stored = running.parts.policy_keeper._store.version(2)
    assert stored is not None and stored.row.document == RULE


async def test_check_stores_nothing_and_shows_tests_and_differences(running: Edge) -> None:
    failing = RULE.replace("expect: {rule: flex}", "expect: {rule: priority}")
    async with console(running) as client:
        answer = await client.post("/console/policies/edit", data={"document": RULE})
        assert (answer.status_code, answer.text.count("✓ passed")) == (200, 3)
        assert "Differs from version 1" in answer.text and "long-prompts" in answer.text
        answer = await client.post("/console/policies/edit", data={"document": failing})
        assert "✗ failed" in answer.text and "1 mistake" in answer.text
        assert (await client.get("/console/policies/2")).status_code == 404
    assert audited(running)[1:] == []


async def test_what_has_no_effect_is_warned_of_in_the_editor_and_in_the_version(
    running: Edge,
) -> None:
    route = "default:\n  route: {"
    idle = RULE.replace(route, f"{route}allow_fallbacks: false, fallbacks: [tale], ", 1)
    assert idle != RULE
    async with console(running) as client:
        edited = (await client.post("/console/policies/edit", data={"document": idle})).text
        await store(client, idle)
        stored = (await client.get("/console/policies/2")).text
    for text in (edited, stored):
        assert "&#39;fallbacks&#39; has no effect" in text
    assert "✓ valid" in edited and "Activate version 2" in stored


async def test_call_is_tried_with_the_document_in_the_editor(running: Edge) -> None:
    """The version in force has no such rule."""
    given = {"key": KEY_ID, "url": CHAT, "body": json.dumps(body()), "act": "try"}
    async with console(running) as client:
        document = RULE.replace("> 32000", "> 1")
        tried = await client.post("/console/policies/edit", data=given | {"document": document})
        assert re.search(r"<code>long-prompts</code> <span class=.tick.>✓ taken", tried.text)
        assert "<code>req.est_tokens &gt; 1</code>" in tried.text
        assert tried.text.index("tale-spot<span") < tried.text.index("tale-reserved<span")
        usual = (await client.post("/console/policies/edit", data=given | {"document": RULE})).text
        assert re.search(r"<code>long-prompts</code> <span class=.soft.>passed over", usual)
        assert re.search(r"<code>default</code> <span class=.tick.>✓ taken", usual)
    assert not running.upstream.requests and audited(running)[1:] == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"body": "no"}, "no JSON object"),
        ({"body": "[]"}, "no JSON object"),
        ({"key": "key_unknown"}, "key_unknown"),
        ({"body": json.dumps(body(model="ghost"))}, "ghost"),
        ({"rid": "req_long_gone"}, "not kept any more"),
        ({"document": WRONG}, "Mend them"),
    ],
    ids=str,
)
async def test_call_that_cannot_be_tried_says_why(
    running: Edge, wrong: dict[str, str], words: str
) -> None:
    given = {"key": KEY_ID, "url": CHAT, "body": json.dumps(body()), "act": "try"}
    async with console(running) as client:
        answer = await client.post(
            "/console/policies/edit", data=given | {"document": RULE} | wrong
        )
    assert answer.status_code == 200
    problem = re.search(r'<p class="problem" role="alert">(.*?)</p>', answer.text)
    assert problem is not None and words in problem[1]


async def test_editor_lists_every_attribute_and_target(running: Edge) -> None:
    async with console(running) as client:
        page = (await client.get("/console/policies/edit")).text
    for word in ("req.est_tokens", "budget.remaining_usd", "pool:tale-spot"):
        assert f"<code>{word}</code>" in page


async def test_of_two_activations_at_once_the_second_is_told(running: Edge) -> None:
    async with console(running) as client:
        await store(client, RULE)
        await store(client, RULE.replace("32000", "64000"))
        assert (await activate(client, 2, expects="1", comment="first")).status_code == 303
        late = await activate(client, 3, expects="1", comment="second")
        assert late.status_code == 409
        assert "version 2 is active, and not 1" in late.text and 'value="second"' in late.text
    assert running.parts.policy_keeper.version == 2


async def test_form_of_another_site_changes_nothing(running: Edge) -> None:
    evil = {"sec-fetch-site": "cross-site"}
    async with console(running) as client:
        await store(client, RULE)
        before = audited(running)
        for path, fields in (
            ("/console/policies/edit", {"document": RULE, "act": "store"}),
            ("/console/policies/2/activate", {"comment": "evil"}),
            ("/console/policies/rollback", {"comment": "evil"}),
        ):
            answer = await client.post(path, data=fields, headers=evil)
            assert answer.status_code == 303, path
    assert audited(running) == before


async def test_stranger_reads_and_changes_nothing(running: Edge) -> None:
    before = audited(running)
    async with browser(running) as client:
        for path in ("", "/edit", "/1"):
            answer = await client.get(f"/console/policies{path}")
            assert (answer.status_code, answer.text) == (303, "")
        assert (await store(client, RULE)).headers["location"].startswith("/console/login")
        for path in ("/1/activate", "/rollback"):
            answer = await client.post(f"/console/policies{path}", data={"comment": "evil"})
            assert answer.headers["location"].startswith("/console/login")
    assert audited(running) == before


async def test_hostile_document_and_comments_stay_text(running: Edge) -> None:
    hostile = SHIPPED.replace("name: every other call", f"name: {json.dumps(HOSTILE)}")
    async with console(running) as client:
        stored = await store(client, hostile, HOSTILE)
        assert stored.status_code == 303, stored.text
        wrong = await store(client, f"{HOSTILE}: {HOSTILE}", HOSTILE)
        pages = [wrong.text]
        for path in ("", "/2", "/edit?version=2"):
            pages.append((await client.get(f"/console/policies{path}")).text)
    for page in pages:
        assert "&lt;script&gt;alert(1)" in page
        assert "<script>alert" not in page and "<img src=x" not in page


@pytest.mark.parametrize("size", [300_000, 4_000_000])
async def test_text_of_any_size_is_refused_in_words(running: Edge, size: int) -> None:
    async with console(running) as client:
        answer = await store(client, "a" * size)
        assert answer.status_code in (400, 413)
        assert "262" in answer.text or answer.status_code == 413


async def test_what_cannot_be_asked_is_said(running: Edge, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away() -> Any:
        raise RedisAway("away")

    async with console(running) as client:
        monkeypatch.setattr(running.parts.policy_keeper, "gateways", away)
        answer = await client.get("/console/policies")
        assert (answer.status_code, "Redis does not answer" in answer.text) == (200, True)
        monkeypatch.setattr(
            running.parts.ledger, "engine", open_store("sqlite:////nowhere/at/all.db").engine
        )
        for path in ("", "/edit", "/1"):
            answer = await client.get(f"/console/policies{path}")
            assert (answer.status_code, "does not answer" in answer.text) == (503, True)
