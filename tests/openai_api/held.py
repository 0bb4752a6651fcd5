"""Hooks of HTTP clients: every answer that a test gets is one that OpenAI's document knows."""

from __future__ import annotations

import httpx2 as httpx

from tests.openai_api.valid import assert_answer


def held(response: httpx.Response) -> None:
    """Streams are left to whoever reads them."""
    content_type = response.headers.get("content-type", "")
    if not content_type.startswith("text/event-stream"):
        body = response.read()
        assert_answer(response.request.url.path, response.status_code, content_type, body)


async def held_async(response: httpx.Response) -> None:
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        await response.aread()
        held(response)
