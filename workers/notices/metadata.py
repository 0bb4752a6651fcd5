"""The metadata server of a rented machine: one request at a time, by the standard library, since a
watcher runs on every node."""

import http.client
from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

TIMEOUT_S = 2.0
ANSWER_BYTES_MAX = 1024 * 1024


class MetadataAway(Exception):
    """There is none, it does not answer in time, or it refuses."""


class MetadataAnswer(msgspec.Struct, frozen=True):
    status: int
    etag: str
    body: bytes


class MetadataClient:
    """At `url`, which is `http://HOST[:PORT]`. Proxies of the environment are not asked: metadata
    is about this machine."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port

    def ask(
        self,
        path: str,
        headers: Mapping[str, str],
        *,
        method: str = "GET",
        timeout_s: float = TIMEOUT_S,
    ) -> MetadataAnswer:
        """Whatever its status. Raises MetadataAway."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        try:
            connection.request(method, path, headers=dict(headers))
            response = connection.getresponse()
            body = response.read(ANSWER_BYTES_MAX)
            return MetadataAnswer(response.status, response.getheader("etag", ""), body)
        except (OSError, http.client.HTTPException) as away:
            raise MetadataAway(f"{type(away).__name__}: {away}") from away
        finally:
            connection.close()
