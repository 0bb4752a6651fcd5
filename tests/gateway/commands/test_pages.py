"""Lists that have more rows than a page: commands print all of them, once each."""

from __future__ import annotations

import pytest

from gateway.commands.terminal.admin_api import AdminApi
from tests.gateway.commands.sluice import Sluice

LISTS = (
    ("org", "list"),
    ("project", "list"),
    ("key", "list"),
    ("budget", "list"),
    ("credits", "list"),
    ("key", "limits", "key_default"),
    ("pools", "list"),
)


async def test_every_list_is_printed_whole(sluice: Sluice, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a page had one row."""
    for name in ("Reed", "Moss", "Fern"):
        slug = name.lower()
        await sluice("org", "create", name)
        await sluice("project", "create", "web", "--org", slug)
        await sluice("key", "create", "first", "--project", f"{slug}/web")
        await sluice("budget", "create", f"org:{slug}", "--limit-usd", "1")
        await sluice("budget", "set", f"project:{slug}/web", "--limit-usd", "1")
        await sluice("credits", "give", slug, "--amount-usd", "1")
    await sluice("key", "limits", "key_default", "--concurrency", "5")
    await sluice("key", "limits", "key_default", "--user", "*", "--concurrency", "1")
    whole = {words: (await sluice.json(*words))["data"] for words in LISTS}
    assert min(map(len, whole.values())) >= 2
    ask = AdminApi.ask

    def ask_for_one(
        self: AdminApi, method: str, path: str, query: dict[str, object], body: None = None
    ) -> object:
        return ask(self, method, path, {**query, "limit": 1}, body)

    monkeypatch.setattr(AdminApi, "ask", ask_for_one)
    for words, rows in whole.items():
        told = await sluice.json(*words)
        assert (told["data"], told.get("has_more", False)) == (rows, False), words
