"""The shape of the tree: a folder is small enough to look through, and a class name means one
thing in a package."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory

ROOT = Path(__file__).parent.parent
PACKAGES = ("gateway", "routing", "billing", "workers")
MODULES_MAX = 20


def modules(package: str) -> list[Path]:
    paths = [path for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py"]
    assert paths
    return paths


@pytest.mark.parametrize("package", PACKAGES)
def test_no_folder_has_more_modules_than_a_person_looks_through(package: str) -> None:
    folders = defaultdict(list)
    for path in modules(package):
        folders[path.parent].append(path.name)
    large = {folder: len(names) for folder, names in folders.items() if len(names) > MODULES_MAX}
    assert large == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_two_classes_of_a_package_have_one_name(package: str) -> None:
    places = defaultdict(list)
    for path in modules(package):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_migrations_have_one_end() -> None:
    """Two changes that each add the next migration land one after the other: a stack could not
    start any more."""
    assert len(ScriptDirectory(ROOT / "migrations").get_heads()) == 1
