"""The guide that makes a first tenant, pasted into a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

from tests.documents.snippets import snippets
from tests.journeys.calls import CHAT, body
from tests.stack import Stack
from tests.stack_config import ROOT
from tests.stack_process import environment

PASTED_PATH = "export PATH=$PWD/.venv/bin:$PATH\n"


def pasted(stack: Stack, script: str) -> str:
    """What a shell prints that runs it; every line has to succeed."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT,
        env=environment()
        | {
            "SLUICE_DATA": str(stack.data),
            "SLUICE_CONFIG": str(stack.config),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_first_tenant_of_the_guide_calls_within_its_budget_and_is_in_the_usage(
    stack: Stack,
) -> None:
    """Under a slug of its own, as the guide's is taken by whoever runs all of its snippets."""
    passage = "".join(takewhile(lambda text: "curl" not in text, guide()))
    passage = passage.replace("Reed", "Weed").replace("reed", "weed")
    assert passage.startswith(PASTED_PATH) and "budget create" in passage
    secret = pasted(stack, passage.replace(PASTED_PATH, "") + 'echo "$KEY"').splitlines()[-1]
    response = stack.call("POST", CHAT, secret=secret, json=body("sluice-small", max_tokens=8))
    assert response.status_code == 200, response.text
    other = stack.call("POST", CHAT, secret=secret, json=body("sluice-large", max_tokens=8))
    assert other.status_code == 404, "it is entitled to one model"
    stack.generation(response.headers["x-request-id"])
    spent = response.headers["x-sluice-cost-usd"]
    used = pasted(stack, "sluice usage --org weed --since 1h --by model").splitlines()
    assert used[-1].split()[:2] == ["sluice-small", "1"] and used[-1].split()[-1] == spent
    assert spent in pasted(stack, "sluice budget list --org weed")


def guide() -> list[str]:
    found = snippets("docs/guides/first-tenant.md")
    return [snippet.text for snippet in found if snippet.language == "sh"]
