"""One process of adapters for all tests that want one, in what `make providers` makes.

They run in one worker, one after the other: a process takes four seconds of a core to start."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.providers.link import providers_secret
from tests.redis_fixtures import redis, redis_server

__all__ = ["providers", "redis", "redis_server"]

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-providers" / "bin" / "python"
SECRET = providers_secret("worker-secret")
"""What the gateway of tests/gateway/edge.py makes of its own."""
KEYS = {
    "SLUICE_PROVIDER_KEY_PLAIN": "sk-provider-0123456789",
    "SLUICE_PROVIDER_KEY_AWS": json.dumps(
        {
            "aws_access_key_id": "AKIATESTTESTTEST",
            "aws_secret_access_key": "aws-secret-0123456789",
            "aws_region_name": "eu-central-1",
        }
    ),
    "SLUICE_PROVIDER_KEY_AZURE": json.dumps(
        {"api_key": "sk-azure-0123456789", "api_version": "2024-10-21"}
    ),
}
START_S = 90.0


@dataclass(frozen=True)
class ProvidersProcess:
    url: str
    process: subprocess.Popen[str]
    lines: list[str]


@pytest.fixture(scope="package")
def providers() -> Iterator[ProvidersProcess]:
    with running_providers() as running:
        yield running


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "providers" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("providers"))


@contextmanager
def running_providers(**more: str) -> Iterator[ProvidersProcess]:
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "SLUICE_PROVIDERS_HOST": "127.0.0.1",
        "SLUICE_PROVIDERS_PORT": "0",
        "SLUICE_PROVIDERS_SECRET": SECRET,
        # Whatever is not on this machine would be asked of a proxy that is not there.
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1",
        **KEYS,
        **more,
    }
    process = subprocess.Popen(
        [PYTHON, "-m", "providers"],
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    said: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(target=_read, args=(process, lines, said), daemon=True)
    reader.start()
    try:
        yield ProvidersProcess(_address(said, lines), process, lines)
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)
        reader.join(15)


def _read(process: subprocess.Popen[str], lines: list[str], said: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        said.put(line)
    said.put("")


def _address(said: queue.Queue[str], lines: list[str]) -> str:
    while line := said.get(timeout=START_S):
        if line.startswith("ready providers "):
            return line.split()[2]
    raise AssertionError(f"the adapters did not start: {''.join(lines)}")
