"""Pools with `adapter = "triton"` before a real Triton server, in the environment of `make
triton`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.types import CallStatus
from tests.gateway.edge import FAR, Response, body
from tests.gateway.providers.fake_triton import FakeTriton
from tests.gateway.providers.test_triton import (
    SMALL_STORY_TOKENS,
    WHOLE,
    both_ways,
    knows_its_tokenizer,
    triton_edge,
)
from tests.redis_server import RedisServer
from tests.stack_process import free_port

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-triton" / "bin" / "python"
START_S = 150.0
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not PYTHON.exists(), reason="no Triton server here: make triton"),
]


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeTriton]:
    """Where it is; its log has what it was asked."""
    folder, port = tmp_path_factory.mktemp("triton"), free_port()
    log = folder / "log"
    command = [PYTHON, Path(__file__).with_name("triton_story.py"), str(port), str(folder / "own")]
    # Its processes of Python load the library of their interpreter by its name.
    libraries = str(sysconfig.get_config_var("LIBDIR"))
    with log.open("wb") as told:
        process = subprocess.Popen(
            command,
            env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": libraries, "HOME": str(folder)},
            stdout=told,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(f"{url}/v2/models/story/ready", process, log)
        yield FakeTriton(url=url, words=(str(log),))
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(15)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"Triton did not start: {log.read_text(errors='replace')[-3000:]}")


def log_of(triton: FakeTriton) -> str:
    return Path(triton.words[0]).read_text(errors="replace")


@both_ways
async def test_answer_of_a_real_server_is_told_and_counted(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, triton: FakeTriton, stream: bool
) -> None:
    async with triton_edge(redis_server, redis, tmp_path, triton) as one:
        knows_its_tokenizer(one)
        more: dict[str, Any] = {} if stream else WHOLE
        response = await one.post(body(model=FAR, temperature=0.5, seed=3, stop="X", **more))
        assert response.status == 200, response.body
        (call,) = (await one.settled()).values()
    if stream:
        pieces = [c["choices"][0]["delta"].get("content") for c in response.chunks if c["choices"]]
        assert [piece for piece in pieces if piece] == ["Once ", "upon ", "a ", "time."]
    else:
        assert response.json["choices"][0]["message"]["content"] == "Once upon a time."
    assert call.status is CallStatus.ANSWERED
    assert call.usage.completion == SMALL_STORY_TOKENS
    asked = log_of(triton)
    assert "'temperature': 0.5" in asked and "'seed': 3" in asked and "'stop': 'X'" in asked


async def test_caller_that_leaves_ends_the_call_and_the_server_goes_on(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, triton: FakeTriton
) -> None:
    async with triton_edge(redis_server, redis, tmp_path, triton) as one:

        async def leave(response: Response) -> None:
            while b"Once" not in response.body:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        long = [{"role": "user", "content": "A long story."}]
        await one.post(body(model=FAR, messages=long), leave=leave)
        (call,) = (await one.settled()).values()
        assert call.status is CallStatus.CANCELLED and 0 < call.usage.completion < 400
        assert (await one.post(body(model=FAR))).status == 200


async def test_failures_of_a_real_server_are_no_fault_of_the_caller(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, triton: FakeTriton
) -> None:
    broken = [{"role": "user", "content": "Now break."}]
    async with triton_edge(redis_server, redis, tmp_path, triton, continues="off") as one:
        response = await one.post(body(model=FAR, messages=broken))
        assert "error" in response.chunks[-1] and "[DONE]" not in response.events
        assert b"Traceback" not in response.body
    async with triton_edge(
        redis_server, redis, tmp_path, triton, upstream_model="nobody", name="other"
    ) as one:
        response = await one.post(body(model=FAR))
        assert (response.status, response.error_code) == (503, "provider_misconfigured")
