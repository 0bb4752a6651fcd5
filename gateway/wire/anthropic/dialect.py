"""What callers of `/v1/messages` speak: keys in `x-api-key`, Anthropic's errors and headers."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from gateway.errors import ApiError
from gateway.wire.anthropic.errors import error_body
from gateway.wire.sse import named_event

VERSION = "anthropic-version"
"""A header that Anthropic's clients send with every request."""
RATE = "x-ratelimit-"
SECONDS_IN = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}


class AnthropicDialect:
    def authorization(self, headers: Mapping[str, str]) -> str | None:
        key = headers.get("x-api-key")
        return f"Bearer {key}" if key else headers.get("authorization")

    def headers(self, openai_headers: Mapping[str, str], now_s: float) -> Mapping[str, str]:
        headers = {}
        for name, value in openai_headers.items():
            if not name.startswith(RATE):
                headers[name] = value
                continue
            kind, _, dimension = name.removeprefix(RATE).partition("-")
            value_text = _at(now_s, value) if kind == "reset" else value
            headers[f"anthropic-ratelimit-{dimension}-{kind}"] = value_text
        return headers | {"request-id": openai_headers["x-request-id"]}

    def refusal(self, error: ApiError, request_id: str) -> bytes:
        return error_body(error, request_id)

    def failed(self, error: ApiError, request_id: str) -> bytes:
        return named_event("error", error_body(error, request_id))

    def waiting(self, note: str) -> bytes:
        return b": " + note.encode() + b"\n" + named_event("ping", b'{"type":"ping"}')


def _at(now_s: float, go_duration: str) -> str:
    """When a duration from now is over, as RFC 3339 has it, in whole seconds and never early."""
    parts = re.findall(r"([0-9.]+)(ms|[hms])", go_duration)
    over_s = now_s + sum(float(number) * SECONDS_IN[unit] for number, unit in parts)
    return datetime.fromtimestamp(-(-over_s // 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


ANTHROPIC = AnthropicDialect()
