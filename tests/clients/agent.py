"""Coding agents as programs: the binaries of tests/clients/agents, each in a home of its own, with
no way out but the gateway on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.marks import ROOT

PACKAGES = ROOT / "tests" / "clients" / "agents" / "node_modules"
CLAUDE = PACKAGES / "@anthropic-ai" / "claude-code-linux-x64" / "claude"
CODEX = next(PACKAGES.glob("@openai/codex-linux-x64/vendor/*/bin/codex"), PACKAGES / "codex")
OPENCODE = PACKAGES / "opencode-linux-x64-baseline" / "bin" / "opencode"
LIMIT_S = 150.0


@dataclass(frozen=True)
class Ended:
    returncode: int
    output: str
    errors: str

    @property
    def events(self) -> list[dict[str, Any]]:
        """Of agents that tell what they do as lines of JSON."""
        return [json.loads(line) for line in self.output.splitlines() if line.startswith("{")]


@dataclass(frozen=True)
class Home:
    """A home folder and in it the project that the agent works on."""

    path: Path

    @property
    def work(self) -> Path:
        return self.path / "work"

    def write(self, name: str, text: str) -> None:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    async def run(self, program: Path, *words: str, **env: str) -> Ended:
        """Until it ends; what it started ends with it."""
        process = await asyncio.create_subprocess_exec(
            _there(program),
            *words,
            cwd=self.work,
            env=self._environment() | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(LIMIT_S):
                output, errors = await process.communicate()
        finally:
            _end_group(process.pid)
        return Ended(process.returncode or 0, output.decode(), errors.decode())

    def _environment(self) -> dict[str, str]:
        nowhere = "http://127.0.0.1:9"
        return {
            "HOME": str(self.path),
            "PATH": os.environ["PATH"],
            "TMPDIR": str(self.path),
            "HTTP_PROXY": nowhere,
            "HTTPS_PROXY": nowhere,
            "NO_PROXY": "127.0.0.1,localhost",
        }


def _there(program: Path) -> Path:
    assert program.is_file(), f"{program} is not there: requirements/install.sh agents"
    return program


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


async def claude_code(home: Home, base_url: str, key: str, prompt: str, *words: str) -> Ended:
    return await home.run(
        CLAUDE,
        "-p",
        prompt,
        *("--output-format", "stream-json", "--verbose", *words),
        *("--allowedTools", "Bash Read Write Edit"),
        ANTHROPIC_BASE_URL=base_url,
        ANTHROPIC_API_KEY=key,
        ANTHROPIC_MODEL="outside",
        ANTHROPIC_SMALL_FAST_MODEL="outside",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
        DISABLE_AUTOUPDATER="1",
    )


CODEX_CONFIG = """
model = "outside"
model_provider = "sluice"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.sluice]
name = "Sluice"
base_url = "{base_url}/v1"
env_key = "SLUICE_KEY"
wire_api = "responses"
"""


async def codex(home: Home, base_url: str, key: str, prompt: str, *words: str) -> Ended:
    home.write(".codex/config.toml", CODEX_CONFIG.format(base_url=base_url))
    open_to_all = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    return await home.run(CODEX, "exec", "--json", *open_to_all, *words, prompt, SLUICE_KEY=key)


async def opencode(home: Home, base_url: str, key: str, prompt: str) -> Ended:
    model = {"name": "outside", "limit": {"context": 200_000, "output": 4096}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{base_url}/v1", "apiKey": key},
        "models": {"outside": model},
    }
    config = {
        "autoupdate": False,
        "share": "disabled",
        "model": "sluice/outside",
        "small_model": "sluice/outside",
        "provider": {"sluice": provider},
    }
    home.write(".config/opencode/opencode.json", json.dumps(config))
    off = {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}
    return await home.run(OPENCODE, "run", "--format", "json", prompt, **off)
