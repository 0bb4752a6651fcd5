"""A reader who pastes the snippets of one page, one after the other, and looks at what comes.

The reader sits in a folder that looks like a checkout whose Sluice is the stack of the tests: the
address, the key and the servers of the pages are replaced by real ones, and nothing else is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from gateway.settings import load_settings
from tests.documents.snippets import ROOT, Snippet
from tests.stack import Stack
from tests.stack_process import environment

ADDRESS = "http://127.0.0.1:8080"
KEY = "sk-sluice-..."
BLOCK_S = 120.0
VARYING = re.compile(r"[0-9][0-9a-zA-Z.:_-]*|\b[a-z]+_[0-9a-zA-Z_]*[0-9][0-9a-zA-Z_]*|-{2,}|\.{3}")
POOL_CHOSEN = re.compile(r"\b(small|large)-(reserved|spot)\b")
"""What a pool costs is learned from the calls before: which one of a model is cheapest varies."""


@dataclass(slots=True)
class Reader:
    stack: Stack
    folder: Path
    servers: Mapping[str, str] = field(default_factory=dict)
    """URLs of the page, and what stands for them here."""
    variables: dict[str, str] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=dict)
    """What the page's Python has defined."""
    printed: str = ""
    """By the last block that ran."""

    def sit_down(self) -> None:
        """A folder like a fresh checkout; what the page writes stays in it."""
        for path in ROOT.iterdir():
            if path.name not in (".git", ".sluice", "build"):
                (self.folder / path.name).symlink_to(path)
        (self.folder / ".sluice").symlink_to(self.stack.data)

    def read(self, snippet: Snippet) -> None:
        text = self._here(snippet.text)
        if snippet.title is not None:
            self._write(snippet.title, text)
        elif snippet.language == "sh":
            self._paste(text, snippet)
        elif snippet.language == "python":
            self._execute(text, snippet)
        elif snippet.language == "json":
            self._compare(json.loads(snippet.text), snippet)
        elif snippet.language == "text":
            self._recognise(snippet)
        else:
            raise AssertionError(f"{snippet.where}: a block of {snippet.language} needs a title")

    # --- what runs -------------------------------------------------------------------------------

    def _paste(self, text: str, snippet: Snippet) -> None:
        """One shell for all blocks of a page: what one sets the next one has."""
        self.stack.wait_booked()
        state = self.folder / ".variables"
        kept = f"export -p > {state}"
        begun = f"set -a; [ ! -e {state} ] || . {state}; trap '{kept}' EXIT\n"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", begun + text],
            cwd=self.folder,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=BLOCK_S,
        )
        self.printed = done.stdout
        refused = snippet.exits == 0 and '{"error":' in done.stdout
        ended_well = done.returncode == snippet.exits and not refused
        assert ended_well, f"{snippet.where}:\n{text}\n{done.stdout}"

    def _environment(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return environment() | {"PATH": path, "HOME": str(self.folder)} | self.variables

    def _execute(self, text: str, snippet: Snippet) -> None:
        out = StringIO()
        with redirect_stdout(out):
            exec(compile(text, snippet.where, "exec"), self.names)
        self.printed = out.getvalue()

    def _write(self, title: str, text: str) -> None:
        path = self.folder / title
        if path.is_symlink():
            path.unlink()
        path.write_text(text)
        if path.name == "sluice.toml":
            load_settings(path)

    # --- what is looked at -----------------------------------------------------------------------

    def _compare(self, told: object, snippet: Snippet) -> None:
        """Every field of the page is in the answer, with a value of the same type."""
        starts = [n for n, char in enumerate(self.printed) if char in "{["]
        for start in starts:
            try:
                found, _ = json.JSONDecoder().raw_decode(self.printed[start:])
            except ValueError:
                continue
            assert (lacking := unlike(told, found)) is None, f"{snippet.where}: {lacking}\n{found}"
            return
        raise AssertionError(f"{snippet.where}: no JSON in {self.printed!r}")

    def _recognise(self, snippet: Snippet) -> None:
        """Every line of the page was printed, but for what differs between runs: numbers, ids, the
        pool of a model."""
        printed = [masked(line) for line in self.printed.splitlines()]
        for line in snippet.text.splitlines():
            if masked(line):
                assert masked(line) in printed, f"{snippet.where}: {line}\n{self.printed}"

    def _here(self, text: str) -> str:
        for told, real in self.servers.items():
            text = text.replace(told, real)
        text = text.replace(ADDRESS, self.stack.base_url)
        return text.replace(KEY, self.stack.ready["api_key"])


def masked(line: str) -> str:
    return " ".join(VARYING.sub("#", POOL_CHOSEN.sub(r"\1-pool", line)).split())


def unlike(told: Any, found: Any, path: str = "") -> str | None:
    """Where what was told differs in shape from what was found; None where it does not."""
    if isinstance(told, dict):
        if not isinstance(found, dict):
            return f"{path} is no object"
        for name, each in told.items():
            if name not in found:
                return f"{path}.{name} is not there"
            if (why := unlike(each, found[name], f"{path}.{name}")) is not None:
                return why
        return None
    if isinstance(told, list) and isinstance(found, list):
        pairs = zip(told, found, strict=False)
        return next((why for a, b in pairs if (why := unlike(a, b, f"{path}[]"))), None)
    number = (int, float)
    same = type(told) is type(found) or (isinstance(told, number) and isinstance(found, number))
    return None if same else f"{path} is {found!r}"
