"""What a call's neighbours are told by, and what an attempt is counted as."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from redis.asyncio import Redis

from gateway.replicas.placement import HINT_CHARS_MAX, beginning_of, hint_of
from gateway.wire.bodies.chat import parse_chat
from gateway.wire.bodies.completions import parse_completion
from gateway.wire.bodies.embeddings import parse_embedding
from gateway.wire.responses.body import parse_response
from tests.gateway.edge import body, edge, story
from tests.redis_server import RedisServer

SAID = "The mill stands by the river and grinds. " * 20


def chat(*texts: str, **changes: Any) -> bytes:
    messages = [
        {"role": "assistant" if number % 2 else "user", "content": text}
        for number, text in enumerate(texts)
    ]
    return msgspec.json.encode({"model": "tale", "messages": messages} | changes)


def blocks(raw: bytes) -> tuple[bytes, ...]:
    return beginning_of(parse_chat(raw).payload, "", "org").chain.blocks


def test_turn_of_a_conversation_begins_with_the_whole_blocks_of_the_one_before() -> None:
    first, second = blocks(chat(SAID)), blocks(chat(SAID, "Good.", "And then?"))
    assert len(first) >= 3
    assert second[: len(first)] == first


def test_other_tools_are_another_beginning() -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    assert not set(blocks(chat(SAID))) & set(blocks(chat(SAID, tools=[tool])))


def test_what_is_not_kept_from_its_beginning_has_none() -> None:
    def prefix(raw: str) -> bytes:
        return parse_completion(raw.encode(), lambda *_: "").payload.prefix()

    assert prefix('{"model": "m", "prompt": "one"}') == b"one"
    assert prefix('{"model": "m", "prompt": [1, 2]}') == b"\1\0\0\0\2\0\0\0"
    assert prefix('{"model": "m", "prompt": ["one", "two"]}') == b""
    assert prefix('{"model": "m", "prompt": "one", "truncate_prompt_tokens": 4}') == b""
    assert parse_embedding(b'{"model": "m", "input": "one"}').payload.prefix() == b""


def test_session_of_the_header_goes_before_the_key_of_the_body_and_is_bounded() -> None:
    assert hint_of({"x-session-id": "s"}, "k") == "s"
    assert hint_of({}, "k") == "k"
    assert hint_of({}, None) == ""
    assert len(hint_of({"x-session-id": "s" * 9_000}, None)) == HINT_CHARS_MAX


def test_both_routes_that_have_the_field_say_the_key_of_a_cache() -> None:
    assert parse_chat(chat(SAID, prompt_cache_key="k")).prompt_cache_key == "k"
    asked = b'{"model": "tale", "prompt_cache_key": "k", "input": "x"}'
    assert parse_response(asked).prompt_cache_key == "k"


async def test_calls_of_a_session_go_to_one_replica_and_leave_no_counter(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path, behaviour=lambda _: story(frames=3)) as one:
        await one.publish_fleet(*(one.replica(f"r{n}") for n in range(3)))
        sessions = ("a", "b", "c", "d")
        ids: dict[str, list[str]] = {name: [] for name in sessions}
        for name in sessions * 4:
            answer = await one.post(body(), headers={"x-session-id": name})
            assert answer.status == 200
            ids[name].append(answer.headers["x-request-id"])
        calls = await one.settled()
        for name in sessions:
            replicas = Counter(calls[rid].attempts[-1].replica for rid in ids[name])
            assert replicas.most_common(1)[0][1] >= 3, "all but a call that explores"
        assert one.parts.placement.outstanding.by_replica == {}
        assert not one.parts.placement.open


async def test_next_turn_goes_where_the_last_one_was_computed(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path) as one:
        await one.publish_fleet(*(one.replica(f"r{n}") for n in range(3)))
        asked = body(messages=[{"role": "user", "content": SAID}])
        for _ in range(6):
            assert (await one.post(asked)).status == 200
        calls = (await one.settled()).values()
        replicas = Counter(call.attempts[-1].replica for call in calls)
        assert replicas.most_common(1)[0][1] >= 5, "all but a call that explores"
