"""What the process of adapters is started with: keys of providers, and nothing of our stores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.providers.launch import NoEnvironment, is_made, make_environment, process_environment
from gateway.providers.link import providers_secret
from gateway.settings import ProvidersSettings

OURS = {
    "SLUICE_SQL_URL": "postgresql://user:password@host/name",
    "SLUICE_REDIS_URL": "redis://host",
    "SLUICE_ADMIN_KEY": "sk-sluice-admin-1",
    "SLUICE_API_KEY": "sk-sluice-1",
    "SLUICE_WORKER_SECRET": "worker-secret",
    "SLUICE_PROVIDER_KEY_": "names nothing",
    "RAY_AUTH_TOKEN": "token",
    "AWS_SECRET_ACCESS_KEY": "of the machine",
    "OPENAI_API_KEY": "of the machine, too",
}
PASSED = {
    "PATH": "/usr/bin",
    "HTTPS_PROXY": "http://proxy:3128",
    "SLUICE_PROVIDER_KEY_ANTHROPIC": "sk-ant",
}


def test_environment_has_provider_keys_and_nothing_of_our_stores() -> None:
    variables = process_environment(ProvidersSettings(), "worker-secret", OURS | PASSED)
    assert not variables.keys() & OURS.keys()
    assert variables.items() >= PASSED.items()
    assert not set(OURS.values()) & set(variables.values())
    assert variables["SLUICE_PROVIDERS_SECRET"] == providers_secret("worker-secret")


def test_secret_differs_by_stack_and_is_not_the_one_it_is_made_of() -> None:
    assert providers_secret("a") != providers_secret("b")
    assert "worker-secret" not in providers_secret("worker-secret")


def test_environment_is_made_anew_where_its_lock_is_newer(tmp_path: Path) -> None:
    python, lock = tmp_path / "venv" / "bin" / "python", tmp_path / "lock"
    python.parent.mkdir(parents=True)
    lock.touch()
    assert not is_made(python, lock)
    python.touch()
    assert not is_made(python, lock)
    stamp = tmp_path / "venv" / ".runtime"
    stamp.touch()
    os.utime(lock, (1, 1))
    assert is_made(python, lock)
    os.utime(stamp, (0, 0))
    assert not is_made(python, lock)


def test_interpreter_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(NoEnvironment, match=r"no Python at .*python of \[providers\]"):
        make_environment(ProvidersSettings(python=tmp_path / "python"), {})


def test_no_part_but_the_adapters_imports_litellm() -> None:
    """The environment of the tests has it: import-linter looks at imports, this at what runs."""
    code = (
        "import gateway.app, gateway.server.process, gateway.cli, gateway.providers.launch;"
        "import billing.__main__, workers.controller.reconciler, sys;"
        "sys.exit('litellm' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
