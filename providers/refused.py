"""A call that is answered with an error, in OpenAI's words."""

import json
from collections.abc import Iterable

HIDDEN = "[key]"
MESSAGE_CHARS_MAX = 2000
TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
}


class CallRefused(Exception):
    """`param` names the field at fault; `retry_after_s` is the provider's own word."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after_s: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.retry_after_s = retry_after_s

    def body(self, secrets: Iterable[str] = ()) -> bytes:
        """The error object without what may stand in no answer."""
        error = {
            "message": without(str(self), secrets)[:MESSAGE_CHARS_MAX],
            "type": TYPES.get(self.status, "server_error"),
            "param": self.param,
            "code": self.code,
        }
        return json.dumps({"error": error}).encode()


def without(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text
