"""The arrows that import-linter cannot draw: routing imports the standard library and itself.

One file is the exception: the conditions of a policy are CEL, and CEL needs its engine."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXCEPTIONS = {ROOT / "routing" / "policy" / "conditions.py": {"cel_expr_python"}}


@pytest.mark.parametrize("path", sorted((ROOT / "routing").rglob("*.py")), ids=lambda p: p.stem)
def test_routing_uses_the_standard_library_only(path: Path) -> None:
    imported = {name.split(".")[0] for name in _imports(path)}
    assert imported <= set(sys.stdlib_module_names) | {"routing"} | EXCEPTIONS.get(path, set())


def _imports(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append(node.module)
    return found
