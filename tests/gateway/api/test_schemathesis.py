"""Schemathesis against the running gateway: whatever a caller sends, the answer is one that the
description tells of, and never a mistake of ours.

Boundary values of parameters and bodies, then bodies at random, the same every time. The fake
worker answers, and much of what is sent names things that are there, so calls go all the way.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest
from redis.asyncio import Redis

from tests.gateway.edge import API_KEY, edge
from tests.gateway.served import served
from tests.redis_server import RedisServer
from tests.stack_config import ROOT

CONFIG = Path(__file__).parent / "schemathesis.toml"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "ignored_auth",
    "negative_data_rejection",
)
"""Not positive_data_acceptance: much that no schema can say is refused (a choice among tools that
are not there, a call of a tool without its answer, names of nothing). That what may be said is
taken is a law of test_bodies.py."""
SHORT = dict.fromkeys(("tenant", "admin"), "examples,fuzzing")
SHORT["operations"] = "examples,coverage,fuzzing"
"""Boundary values of every field of all routes take minutes: they are in the long run."""
SIDES = {
    "tenant": ("/v1/", API_KEY),
    "admin": ("/admin/", "admin"),
    "operations": ("/(healthz|health|livez|readyz|metrics)", "admin"),
}


async def fuzzed(
    server: RedisServer, redis: Redis, data: Path, side: str, *, examples: int, phases: str
) -> None:
    """Fails with the report of everything that was found, each with a line to repeat it."""
    paths, key = SIDES[side]
    gateway = {"body_timeout_s": 5.0, "deadline_flex_s": 2.0, "deadline_default_s": 2.0}
    async with edge(server, redis, data, gateway=gateway) as running, served(running.app) as url:
        running.app.openapi()  # on a busy machine longer than the fuzzer waits for it
        started = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)),
            *("run", f"{url}/openapi.json"),
            *("--url", url, "--include-path-regex", f"^{paths}"),
            *("--header", f"Authorization: Bearer {key}"),
            *("--checks", ",".join(CHECKS), "--phases", phases),
            *("--max-examples", str(examples)),
            "--generation-deterministic",
            *("--workers", "1", "--continue-on-failure", "--no-color"),
            *("--request-timeout", "20", "--suppress-health-check", "all"),
            cwd=ROOT,
            env=os.environ | {"SCHEMATHESIS_HOOKS": "tests.gateway.api.fuzz_hooks"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            report, _ = await started.communicate()
        finally:
            if started.returncode is None:
                started.kill()
                await started.wait()
        assert running.upstream.requests or side != "tenant", "calls go all the way"
    assert started.returncode == 0, report.decode(errors="replace")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", SIDES)
async def test_fuzzer_finds_nothing(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, side: str
) -> None:
    await fuzzed(redis_server, redis, tmp_path, side, examples=3, phases=SHORT[side])


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("side", SIDES)
async def test_fuzzer_finds_nothing_in_a_long_time(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, side: str
) -> None:
    phases = "examples,coverage,fuzzing,stateful"
    await fuzzed(redis_server, redis, tmp_path, side, examples=150, phases=phases)
