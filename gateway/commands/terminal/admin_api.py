"""The admin API of one gateway, asked over plain HTTP by the commands that need it.

Neither redirects nor proxies are followed: the admin key goes to the address that was named.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

import click

if TYPE_CHECKING:
    from http.client import HTTPResponse

TIMEOUT_S = 60.0
TEXT_MAX = 200
"""Of an answer that is not Sluice's."""


class Refused(click.ClickException):
    """What the gateway said no to, in one line; `param` is the field that is wrong, and `errors`
    are the mistakes of a document."""

    def __init__(
        self, message: str, param: str | None = None, errors: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        super().__init__(message if not param or param in message else f"{message} ({param})")
        self.errors = errors


@dataclass(frozen=True, slots=True)
class AdminAnswer:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class AdminApi:
    """`url` without a slash at its end; `source` says where it was read, for error messages.
    Every method raises Refused for what is not answered with 2xx."""

    url: str
    key: str
    source: str = ""

    def get(self, path: str, **query: Any) -> Any:
        return self._json("GET", path, query)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._json("POST", path, body=body)

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._json("PUT", path, body=body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        return self._json("PATCH", path, body=body)

    def delete(self, path: str) -> Any:
        return self._json("DELETE", path)

    def whole(self, path: str, **query: Any) -> dict[str, Any]:
        """A list with the rows of all its pages."""
        first, *others = self._pages(path, query)
        rows = [row for page in (first, *others) for row in page["data"]]
        ends = {name: None for name in ("after", "next_page") if name in first}
        more = {"has_more": False} if "has_more" in first else {}
        return first | {"data": rows} | more | ends

    def rows(self, path: str, **query: Any) -> list[dict[str, Any]]:
        data: list[dict[str, Any]] = self.whole(path, **query)["data"]
        return data

    def ask(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> AdminAnswer:
        answer = self._exchange(method, _target(self.url, path, query or {}), body)
        if not 200 <= answer.status < 300:
            raise self._refusal(answer)
        return answer

    def _json(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        answer = self.ask(method, path, query, body)
        try:
            return json.loads(answer.text)
        except ValueError as broken:
            raise Refused(self._no_sluice(answer)) from broken

    def _pages(self, path: str, query: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """A cursor is `after`, or `page` where the answer calls it `next_page`."""
        cursor: dict[str, Any] = {}
        while True:
            page = self.get(path, **query, **cursor)
            yield page
            before = cursor
            if page.get("next_page"):
                cursor = {"page": page["next_page"]}
            elif page.get("has_more") and (last := page.get("after") or page.get("last_id")):
                cursor = {"after": last}
            else:
                return
            if cursor == before:
                raise Refused(f"{self.url}{path}: a page names itself as the next one")

    def _exchange(self, method: str, target: str, body: Mapping[str, Any] | None) -> AdminAnswer:
        # Not at the top: it takes as long as all else, and `--help` asks nobody.
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        parts = urlsplit(self.url)
        assert parts.hostname is not None
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname, parts.port, timeout=TIMEOUT_S)
        headers = {"authorization": f"Bearer {self.key}", "accept": "application/json, text/csv"}
        payload = None if body is None else json.dumps(body).encode()
        if payload is not None:
            headers["content-type"] = "application/json"
        try:
            connection.request(method, target, payload, headers)
            return _answer(connection.getresponse())
        except (OSError, HTTPException, UnicodeError) as away:
            raise Refused(self._away(away)) from away
        finally:
            connection.close()

    def _away(self, away: Exception) -> str:
        reason = away.strerror if isinstance(away, OSError) and away.strerror else str(away)
        reason = getattr(away, "verify_message", reason)
        hint = f" {self.source} names this address." if self.source else ""
        return f"{self.url} does not answer: {reason or type(away).__name__}.{hint}"

    def _refusal(self, answer: AdminAnswer) -> Refused:
        try:
            error = json.loads(answer.text)["error"]
            message, param = str(error["message"]), error.get("param")
        except (ValueError, KeyError, TypeError, AttributeError):
            return Refused(self._no_sluice(answer))
        if answer.status == 401:
            return Refused(f"{self.url} does not take this admin key: {message}")
        return Refused(_line(message), param, error.get("errors") or ())

    def _no_sluice(self, answer: AdminAnswer) -> str:
        text = _line(answer.text[:TEXT_MAX]) or "nothing"
        return f"{self.url} is no Sluice: it answered {answer.status} with {text}"


def _answer(response: HTTPResponse) -> AdminAnswer:
    text = response.read().decode("utf-8", "replace")
    return AdminAnswer(response.status, {k.lower(): v for k, v in response.getheaders()}, text)


def _target(url: str, path: str, query: Mapping[str, Any]) -> str:
    fields = {name: value for name, value in query.items() if value not in (None, (), [])}
    query_text = f"?{urlencode(fields, doseq=True)}" if fields else ""
    return f"{urlsplit(url).path}/admin/v1{path}{query_text}"


def _line(text: str) -> str:
    return " ".join(text.split())
