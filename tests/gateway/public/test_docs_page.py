"""`/docs` shares an origin with the console: it runs nothing but our own files."""

from __future__ import annotations

import hashlib
import re
from random import Random
from typing import Any

import pytest

from gateway.app import create_app
from gateway.parts import Outside
from gateway.public.docs import FOLDER, KINDS, SHA256
from gateway.settings import Settings
from tests.gateway.api.asgi import Answer, answer


async def get(path: str, **headers: str) -> Answer:
    app: Any = create_app(Settings(), Outside(lambda: 1e9, Random(1), Random(2).randbytes, {}))
    return await answer(app, "GET", path, headers=headers)


async def test_page_loads_nothing_from_elsewhere_and_has_nothing_inline() -> None:
    """A CDN's script ran on the console's origin."""
    page = await get("/docs")
    text = page.body.decode()
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    loaded = set(re.findall(r'(?:src|href)="([^"]*)"', text))
    assert loaded == {"console/static/sluice.svg", *(f"docs/{name}" for name in KINDS)}
    assert "//" not in text
    assert not re.search(r"<style|<script(?! src=)|style=| on\w+=", text)


@pytest.mark.parametrize("path", ["/docs", *(f"/docs/{name}" for name in KINDS)])
async def test_policy_lets_only_our_own_origin_in(path: str) -> None:
    found = await get(path)
    policy = dict(
        rule.split(" ", 1) for rule in found.headers["content-security-policy"].split("; ")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert found.status == 200
    again = await get(path, **{"if-none-match": found.headers.get("etag", "-")})
    assert again.status == (304 if "etag" in found.headers else 200)


@pytest.mark.parametrize("name", ["LICENSE", "..%2Fdocs_page.py", "swagger-ui-bundle.js.map"])
async def test_nothing_else_of_the_folder_is_served(name: str) -> None:
    assert (await get(f"/docs/{name}")).status == 404


def test_files_are_as_they_were_published_with_their_licence() -> None:
    for name, digest in SHA256.items():
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest
    assert "Apache License" in (FOLDER / "LICENSE").read_text()
    assert {"NOTICE", "swagger-ui-bundle.js.LICENSE.txt"} <= {f.name for f in FOLDER.iterdir()}


async def test_description_keeps_its_place() -> None:
    found = await get("/openapi.json")
    assert (found.status, found.json["info"]["title"]) == (200, "Sluice")
    assert b'url: "openapi.json"' in (await get("/docs/start.js")).body
