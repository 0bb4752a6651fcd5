"""A browser for this folder only: while it is open, no test of its thread may run asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.visit import Visit, chromium
from tests.stack import Stack

Open = Callable[..., Visit]


@pytest.fixture(scope="package")
def browser(stack: Stack) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium())
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Browser, stack: Stack) -> Iterator[Open]:
    """Opens visits; each must end without a complaint."""
    visits: list[Visit] = []

    def begin(**options: Any) -> Visit:
        visits.append(Visit(browser, stack, **options))
        return visits[-1]

    yield begin
    for begun in visits:
        begun.end()


@pytest.fixture
def page(visit: Open) -> Page:
    """The console, signed in, on a large screen."""
    return visit().sign_in()
