"""Every snippet of every page, pasted in page order into the one real stack.

What is not run is marked in the page with its reason, and counted by
`tests/documents/test_snippets.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.documents.reader import Reader
from tests.documents.snippets import pages, snippets
from tests.journeys.outside import Outside
from tests.stack import Stack

SERVERS = ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1", "https://api.openai.com/v1")
"""Of the pages; each is a server of the test's own."""


def with_snippets() -> list[str]:
    return [page for page in pages() if any(s.not_run is None for s in snippets(page))]


@pytest.fixture
def catalog_as_it_was(stack: Stack) -> Iterator[None]:
    """What a page adds to the catalog is taken away again, and its pools first."""
    before = {kind: names(stack, kind) for kind in ("pools", "models")}
    yield
    for kind in ("pools", "models"):
        for name in names(stack, kind) - before[kind]:
            stack.admin_response("DELETE", f"/{kind}/{name}").raise_for_status()


def names(stack: Stack, kind: str) -> set[str]:
    return {row["name"] for row in stack.admin("GET", f"/{kind}")["data"]}


@pytest.mark.parametrize("page", with_snippets())
def test_snippets_of_a_page_do_what_it_says(
    stack: Stack, page: str, tmp_path: Path, catalog_as_it_was: None
) -> None:
    with ExitStack() as servers:
        real = {url: servers.enter_context(Outside()).base_url for url in SERVERS}
        reader = Reader(stack, tmp_path, real)
        reader.sit_down()
        for snippet in snippets(page):
            if snippet.not_run is None:
                reader.read(snippet)
