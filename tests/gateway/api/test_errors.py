"""Every no, of every route, is OpenAI's error object with a request id (law 1: one answer each)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import httpx2 as httpx
import pytest
from redis.asyncio import Redis
from sqlalchemy.exc import OperationalError

from gateway.api.media import refuse_other_media
from gateway.app import create_app
from gateway.errors import MESSAGE_CHARS_MAX, ApiError, bad_request
from gateway.parts import Outside
from gateway.settings import Settings
from tests.gateway.edge import API_KEY, CHAT, COMPLETIONS, EMBEDDINGS, Edge, body, edge
from tests.gateway.served import served
from tests.plain_http import NOBODY
from tests.redis_server import RedisServer

BODY_MAX = 2000
KEYS = {"message", "type", "param", "code"}
GENERATING = (CHAT, COMPLETIONS, EMBEDDINGS)
ORGANIZATIONS = "/admin/v1/organizations"


class Web:
    """The gateway over a real socket."""

    def __init__(self, edge: Edge, url: str, client: httpx.AsyncClient) -> None:
        self.edge, self.url, self.client = edge, url, client

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        key = "admin" if path.startswith("/admin") else API_KEY
        headers = {"authorization": f"Bearer {key}"} | options.pop("headers", {})
        return await self.client.request(method, f"{self.url}{path}", headers=headers, **options)


@pytest.fixture
async def web(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Web]:
    settings = {"body_bytes_max": BODY_MAX, "body_timeout_s": 2.0}
    async with (
        edge(redis_server, redis, tmp_path, gateway=settings) as running,
        served(running.app) as url,
        httpx.AsyncClient(verify=NOBODY, timeout=60) as client,
    ):
        yield Web(running, url, client)


def told(response: httpx.Response, status: int, code: str | None) -> dict[str, Any]:
    """The error of an answer that has everything every error has."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req_")
    assert int(response.headers["openai-processing-ms"]) >= 0
    document = response.json()
    assert document.keys() == {"error"}
    error: dict[str, Any] = document["error"]
    assert error.keys() == KEYS
    assert error["message"] and error["type"]
    assert error["code"] == code
    if status in (429, 503) and error["code"] != "insufficient_quota":
        assert int(response.headers["retry-after"]) >= 1
    return error


NOT_THERE: dict[str, tuple[str, str, str | None]] = {
    "a path nobody knows": ("GET", "/v1/nothing", None),
    "a page": ("GET", "/nothing", None),
    "a path with a slash too many": ("POST", f"{CHAT}/", None),
    "training": ("POST", "/v1/fine_tuning/jobs", "not_offered"),
    "images": ("POST", "/v1/images/variations", "not_offered"),
    "a model": ("GET", "/v1/models/gpt-none", "model_not_found"),
    "an organization": ("PATCH", f"{ORGANIZATIONS}/org_none", "not_found"),
    "a request": ("GET", "/admin/v1/requests/req_none", "not_found"),
    "bytes that are no UTF-8": ("GET", "/v1/%ff%fe", None),
    "no file of the console": ("GET", "/console/static/none.js", None),
}


@pytest.mark.parametrize(("method", "path", "code"), NOT_THERE.values(), ids=NOT_THERE.keys())
async def test_what_is_not_there_is_not_found(
    web: Web, method: str, path: str, code: str | None
) -> None:
    sent = {"json": {"status": "active"}} if method != "GET" else {}
    told(await web.ask(method, path, **sent), 404, code)


WRONG_METHODS = {
    CHAT: ("GET", "POST"),
    EMBEDDINGS: ("OPTIONS", "POST"),
    "/v1/models": ("DELETE", "GET, HEAD"),
    "/v1/quote": ("TRACE", "POST"),
    ORGANIZATIONS: ("PUT", "GET, HEAD, POST"),
    "/admin/v1/pools/one": ("GET", "DELETE, PATCH, PUT"),
    "/admin/v1/keys/key_1": ("POST", "DELETE"),
    "/healthz": ("POST", "GET, HEAD"),
}


@pytest.mark.parametrize("path", WRONG_METHODS)
async def test_wrong_method_is_told_which_are_allowed(web: Web, path: str) -> None:
    method, allowed = WRONG_METHODS[path]
    response = await web.ask(method, path)
    told(response, 405, "method_not_allowed")
    assert response.headers["allow"] == allowed


TYPED = {
    "application/json": True,
    "Application/JSON; charset=utf-8": True,
    "application/problem+json": True,
    "text/plain": False,
    "application/x-www-form-urlencoded": False,
    "multipart/form-data; boundary=x": False,
    "application/json-seq": False,
}


@pytest.mark.parametrize("given", TYPED)
def test_only_json_is_taken_for_json(given: str) -> None:
    refuse_other_media({})
    if TYPED[given]:
        refuse_other_media({"content-type": given})
    else:
        with pytest.raises(ApiError) as refused:
            refuse_other_media({"content-type": given})
        assert refused.value.status == 415


@pytest.mark.parametrize("path", [*GENERATING, "/v1/tokenize", "/v1/quote", ORGANIZATIONS])
async def test_body_that_claims_to_be_something_else_is_refused(web: Web, path: str) -> None:
    headers = {"content-type": "text/plain"}
    error = told(
        await web.ask("POST", path, content=b"model=tale", headers=headers),
        415,
        "unsupported_content_type",
    )
    assert "text/plain" in error["message"]


BODIED = [*GENERATING, "/v1/tokenize", "/v1/quote", ORGANIZATIONS]


@pytest.mark.parametrize("path", BODIED)
@pytest.mark.parametrize("in_chunks", [False, True])
async def test_too_large_a_body_is_refused(web: Web, path: str, in_chunks: bool) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b" " * BODY_MAX

    content: Any = parts() if in_chunks else b" " * (BODY_MAX + 1)
    response = await web.ask(
        "POST", path, content=content, headers={"content-type": "application/json"}
    )
    told(response, 413, "request_too_large")


async def test_too_slow_a_body_is_refused(web: Web) -> None:
    await asyncio.gather(*(too_slow(web, path) for path in (*GENERATING, "/v1/tokenize")))


async def too_slow(web: Web, path: str) -> None:
    """The rest never comes."""
    where = httpx.URL(web.url)
    reader, writer = await asyncio.open_connection(where.host, where.port)
    head = f"POST {path} HTTP/1.1\r\nhost: {where.host}\r\nauthorization: Bearer {API_KEY}\r\n"
    writer.write(f"{head}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{".encode())
    said = await reader.readuntil(b"\r\n\r\n")
    status, *lines = said.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines if line)
    content = await reader.readexactly(int(headers["content-length"]))
    writer.close()
    told(httpx.Response(int(status.split()[1]), headers=headers, content=content), 408, None)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b'"\xed\xa0\x80"', b"[" * 1500])
async def test_body_that_is_no_object_is_refused(web: Web, content: bytes) -> None:
    headers = {"content-type": "application/json"}
    for path in BODIED:
        told(await web.ask("POST", path, content=content, headers=headers), 400, None)


async def test_half_a_surrogate_pair_in_a_name_can_be_told(web: Web) -> None:
    headers = {"content-type": "application/json"}
    sent = b'{"name": "x", "slug": "x", "\\ud800": 1}'
    response = await web.ask("POST", ORGANIZATIONS, content=sent, headers=headers)
    told(response, 400, None)


def test_what_was_sent_is_quoted_only_so_far() -> None:
    error = bad_request("x" * 10**6, "y" * 10**6).as_dict()
    assert all(len(error[key] or "") <= MESSAGE_CHARS_MAX + 3 for key in ("message", "param"))


@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/admin/v1/keys"])
async def test_no_key_is_not_a_wrong_key(web: Web, path: str) -> None:
    method = "POST" if path == CHAT else "GET"
    missing = await web.ask(method, path, headers={"authorization": ""})
    wrong = await web.ask(method, path, headers={"authorization": "Bearer sk-wrong"})
    assert "didn't provide" in told(missing, 401, "invalid_api_key")["message"]
    assert "Incorrect" in told(wrong, 401, "invalid_api_key")["message"]


def crash(*_: object, **__: object) -> Any:
    raise RuntimeError("secret words")


@pytest.mark.parametrize(
    ("method", "path", "broken"),
    [
        ("GET", "/admin/v1/keys", "tenants"),
        ("GET", "/v1/models", "catalog"),
        ("POST", CHAT, "pipeline"),
    ],
)
async def test_crash_is_an_error_object_that_tells_nothing(
    web: Web, monkeypatch: pytest.MonkeyPatch, method: str, path: str, broken: str
) -> None:
    parts = web.edge.parts
    if broken == "pipeline":
        monkeypatch.setattr(type(parts.pipeline), "shape", crash)
    elif broken == "tenants":
        monkeypatch.setattr(type(parts.tenants), "page", crash)
    else:
        monkeypatch.setattr(type(parts.catalog), "catalog", property(crash), raising=False)
    sent = {"json": body()} if method == "POST" else {}
    response = await web.ask(method, path, **sent)
    assert "secret" not in told(response, 500, None)["message"]


async def test_database_that_is_away_is_a_503_with_a_time(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> Any:
        raise OperationalError("SELECT secret", {}, Exception("no route"))

    monkeypatch.setattr(type(web.edge.parts.tenants), "page", away)
    response = await web.ask("GET", "/admin/v1/keys")
    assert "SELECT" not in told(response, 503, "server_is_overloaded")["message"]


async def test_crash_in_middleware_is_an_error_object_too(tmp_path: Path) -> None:
    outside = Outside(lambda: 1e9, Random(1), Random(2).randbytes, {})
    app: Any = create_app(Settings(data=tmp_path), outside)

    def broken(inner: Callable[..., Any]) -> Callable[..., Any]:
        async def middleware(scope: Any, receive: Any, send: Any) -> None:
            crash()

        return middleware

    app.add_middleware(broken)
    sent: list[dict[str, Any]] = []

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/healthz", "headers": []}
    with pytest.raises(RuntimeError):
        await app(scope, None, send)
    assert sent[0]["status"] == 500
    assert b"x-request-id" in dict(sent[0]["headers"])
    assert json.loads(sent[1]["body"])["error"].keys() == KEYS


async def test_static_files_pages_and_documents_have_request_ids(web: Web) -> None:
    for path in ("/healthz", "/openapi.json", "/docs", "/console/login"):
        response = await web.ask("GET", path)
        assert response.status_code == 200
        assert response.headers["x-request-id"].startswith("req_")


async def test_no_event_loop_waits_for_the_description(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes more than a second to make, and streams go on meanwhile."""
    threads = []

    def openapi() -> dict[str, Any]:
        threads.append(threading.current_thread())
        return {}

    monkeypatch.setattr(web.edge.app, "openapi", openapi)
    for method, path in (("GET", "/openapi.json"), ("DELETE", "/v1/models"), ("PUT", "/nowhere")):
        await web.ask(method, path)
    assert len(threads) == 1 and threads[0] is not threading.main_thread()
