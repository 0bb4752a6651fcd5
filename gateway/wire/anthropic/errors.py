"""Errors in Anthropic's words: a type for each status."""

import msgspec

from gateway.errors import ApiError

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def error_body(error: ApiError, request_id: str) -> bytes:
    fallback = "api_error" if error.status >= 500 else "invalid_request_error"
    fields: dict[str, object] = {
        "type": TYPES.get(error.status, fallback),
        "message": error.as_dict()["message"],
    }
    if error.details is not None:
        fields["details"] = error.details
    return msgspec.json.encode({"type": "error", "error": fields, "request_id": request_id})
