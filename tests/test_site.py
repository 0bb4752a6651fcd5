"""The site of the documentation: every page has its place, and none loads anything from elsewhere.

What builds it has an environment of its own (`make docs`), so the build itself is a long test.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

from reference.pages import pages

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if path.parent != DOCS / "reference")
"""Those that are kept; `make docs` writes the others."""
ZENSICAL = ROOT / ".venv-docs" / "bin" / "zensical"
BUILT_OF = ("README.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md", "mkdocs.yml")
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]+src=\"?(https?:)?//|@import|url\(\"?https?:"
)
STYLES = re.compile(r"<link[^>]+rel=\"?(?:stylesheet|preload|preconnect|icon)\"?[^>]*//")


def nav() -> list[str]:
    def paths(entry: object) -> list[str]:
        if isinstance(entry, str):
            return [entry]
        inner = entry.values() if isinstance(entry, dict) else entry
        return [path for each in inner for path in paths(each)]  # type: ignore[attr-defined]

    return paths(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])


@cache
def references() -> frozenset[str]:
    """The pages that `make docs` writes. It takes seconds: once for all links of all pages."""
    return frozenset(pages())


def test_every_page_is_in_the_nav_once_and_is_there() -> None:
    written = {f"reference/{name}" for name in references()}
    kept = {str(path.relative_to(DOCS)) for path in PAGES}
    assert sorted(nav()) == sorted(kept | written)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_picture_and_page_that_a_page_names_is_there(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", page.read_text()):
        there = (page.parent / link).resolve()
        if there.parent == DOCS / "reference":
            assert there.name in references(), link
        else:
            assert there.is_file() and there.is_relative_to(DOCS), link
    for line in re.findall(r'--8<-- "([^":]+)', page.read_text()):
        assert (ROOT / line).is_file(), line


@pytest.mark.long
def test_site_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    assert ZENSICAL.exists(), "`make docs` installs what builds the site"
    for name in BUILT_OF:
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(DOCS, tmp_path / "docs", ignore=shutil.ignore_patterns("reference"))
    (tmp_path / "bench").mkdir()
    shutil.copy(ROOT / "bench" / "RESULTS.md", tmp_path / "bench" / "RESULTS.md")
    (tmp_path / "docs" / "reference").mkdir()
    for name, text in pages().items():
        (tmp_path / "docs" / "reference" / name).write_text(text)
    assert build(tmp_path) == 0
    found = [*(tmp_path / "site").rglob("*.html")]
    assert len(found) > len(nav())
    for page in found:
        text = page.read_text()
        assert not LOADED.search(text) and not STYLES.search(text), page
    with (tmp_path / "docs" / "docker.md").open("a") as page_with_a_dead_link:
        page_with_a_dead_link.write("\n[gone](gone.md)\n")
    assert build(tmp_path) != 0


def build(folder: Path) -> int:
    command = [ZENSICAL, "build", "--strict", "--clean", "--config-file", "mkdocs.yml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=200)
    return done.returncode
