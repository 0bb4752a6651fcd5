"""What axe-core finds wrong for people who see, hear or point in other ways."""

from __future__ import annotations

from functools import cache

from playwright.sync_api import Page

from tests.stack_config import ROOT

SCRIPT = ROOT / "tests/clients/node/node_modules/axe-core/axe.min.js"
GRAVE = ("serious", "critical")


def serious(page: Page) -> list[str]:
    """Its findings of the two grave kinds, each with the places on the page."""
    page.evaluate(_axe())
    found = page.evaluate("axe.run()")["violations"]
    return [
        f"{each['id']}: {[node['target'] for node in each['nodes']]}"
        for each in found
        if each["impact"] in GRAVE
    ]


@cache
def _axe() -> str:
    assert SCRIPT.exists(), "axe-core is not installed: make install-test"
    return SCRIPT.read_text("utf-8")
