"""What differs between families of routes beside the answers themselves: how a caller names its key
and how errors, response headers and the events of a waiting or failing stream look.

A dialect is asked once or twice a call and never per chunk: chunks are a form's (see `answer`).
"""

from collections.abc import Mapping
from typing import Protocol

from gateway.errors import ApiError
from gateway.wire.sse import comment, event


class Dialect(Protocol):
    def authorization(self, headers: Mapping[str, str]) -> str | None:
        """Of a request's headers, as an `Authorization` header says it; None without a key."""
        ...

    def headers(self, openai_headers: Mapping[str, str], now_s: float) -> Mapping[str, str]:
        """OpenAI's names of response headers in this dialect's."""
        ...

    def refusal(self, error: ApiError, request_id: str) -> bytes:
        """The body of an answer that is an error."""
        ...

    def failed(self, error: ApiError, request_id: str) -> bytes:
        """The last event of a stream whose answer had not begun."""
        ...

    def waiting(self, note: str) -> bytes:
        """What keeps a stream alive whose answer has not begun."""
        ...


class OpenAIDialect:
    def authorization(self, headers: Mapping[str, str]) -> str | None:
        return headers.get("authorization")

    def headers(self, openai_headers: Mapping[str, str], now_s: float) -> Mapping[str, str]:
        return openai_headers

    def refusal(self, error: ApiError, request_id: str) -> bytes:
        return error.body()

    def failed(self, error: ApiError, request_id: str) -> bytes:
        return event(error.body())

    def waiting(self, note: str) -> bytes:
        return comment(note)


OPENAI = OpenAIDialect()
