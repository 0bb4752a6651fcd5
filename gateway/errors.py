"""Every no the gateway says, in OpenAI's shape: `{"error": {message, type, param, code}}`.

Owns statuses, codes and their headers; knows nothing of how a no came about.
"""

import math
from collections.abc import Mapping, Sequence
from enum import IntEnum

import msgspec

MESSAGE_CHARS_MAX = 4000
"""Messages quote what was sent, which may be as long as a body; the answer need not be."""

MENDED_S = 60.0
"""Nobody knows when a setting is corrected; it takes a person."""


QUOTA_CODE = "insufficient_quota"


class QuotaStatus(IntEnum):
    """What a call is answered that its money does not cover, as its organization has chosen."""

    TOO_MANY_REQUESTS = 429
    PAYMENT_REQUIRED = 402


class ApiError(Exception):
    """A refusal or failure that the caller sees.

    `status` is the HTTP status; `retry_after_s` becomes `retry-after`; `stop_retrying` becomes
    `x-should-retry: false`, which the OpenAI clients honour.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
        retry_after_s: float | None = None,
        stop_retrying: bool = False,
        extra_headers: Mapping[str, str] | None = None,
        details: Mapping[str, object] | None = None,
        errors: Sequence[Mapping[str, object]] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s
        self.stop_retrying = stop_retrying
        self.extra_headers = extra_headers or {}
        self.details = details
        """What Anthropic's clients look at beside the message; no other dialect has it."""
        self.errors = errors
        """Every mistake of a document, with its place in it."""
        self.charged_nanousd = 0
        """What the call had cost when it failed."""
        self.limited_model: str | None = None
        """Whose own limits refused the call: another model may be asked."""

    def body(self) -> bytes:
        return msgspec.json.encode({"error": self.as_dict()})

    def as_dict(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "message": _sayable(self.message),
            "type": self.type,
            "param": None if self.param is None else _sayable(self.param),
            "code": self.code,
        }
        return fields | {"errors": self.errors} if self.errors else fields

    def headers(self) -> dict[str, str]:
        fields = dict(self.extra_headers)
        if self.retry_after_s is not None:
            fields["retry-after"] = str(max(1, math.ceil(self.retry_after_s)))
            fields["retry-after-ms"] = str(max(1, round(self.retry_after_s * 1000)))
        if self.stop_retrying:
            fields["x-should-retry"] = "false"
        return fields


def _sayable(text: str) -> str:
    """What was sent may hold half a surrogate pair, which no UTF-8 can say, or be very long."""
    sayable = text.encode("utf-8", "replace").decode()
    return sayable if len(sayable) <= MESSAGE_CHARS_MAX else f"{sayable[:MESSAGE_CHARS_MAX]}..."


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def invalid_key() -> ApiError:
    return ApiError(401, "Incorrect API key provided.", code="invalid_api_key")


def missing_key() -> ApiError:
    return ApiError(
        401,
        "You didn't provide an API key: send it in the header 'Authorization: Bearer YOUR_KEY'.",
        code="invalid_api_key",
    )


def too_many_wrong_keys(retry_after_s: float) -> ApiError:
    message = "Too many wrong keys came from this address: its keys are not looked at for a while."
    return rate_limited(message, retry_after_s, {})


def body_too_slow() -> ApiError:
    return ApiError(408, "The body of the request came too slowly.")


def unsupported_media_type(media_type: str, expected: str = "application/json") -> ApiError:
    return ApiError(
        415,
        f"Unsupported content type: '{media_type}'. The body must be '{expected}'.",
        code="unsupported_content_type",
    )


def body_too_large(bytes_max: int) -> ApiError:
    message = f"The body is larger than {bytes_max} bytes."
    return ApiError(413, message, code="request_too_large")


def organization_frozen() -> ApiError:
    return ApiError(
        403,
        "The organization or the project of this key is frozen.",
        type="permission_error",
        code="organization_frozen",
    )


def tier_not_allowed(tier: str) -> ApiError:
    message = f"The key may not use the service tier '{tier}'."
    return bad_request(message, "service_tier", "service_tier_not_allowed")


def capacity_not_allowed(message: str) -> ApiError:
    return ApiError(403, message, type="permission_error", code="capacity_not_allowed")


def region_not_allowed(message: str) -> ApiError:
    return ApiError(403, message, type="permission_error", code="region_not_allowed")


def pool_not_allowed(message: str) -> ApiError:
    return ApiError(403, message, type="permission_error", code="pool_not_allowed")


def data_collection_not_allowed(message: str) -> ApiError:
    return ApiError(403, message, type="permission_error", code="data_collection_not_allowed")


def route_not_allowed(message: str) -> ApiError:
    return ApiError(403, message, type="permission_error", code="route_not_allowed")


NOT_ALLOWED = {
    made.__name__: made
    for made in (
        capacity_not_allowed,
        region_not_allowed,
        pool_not_allowed,
        data_collection_not_allowed,
        route_not_allowed,
    )
}
"""By the value of a RefusalKind."""


def model_not_found(model: str) -> ApiError:
    return ApiError(
        404,
        f"The model '{model}' does not exist or you do not have access to it.",
        code="model_not_found",
        param="model",
    )


def no_model_does(verb: str) -> ApiError:
    """Of a call that names no model."""
    message = (
        f"No model that you have access to can {verb}: 'GET /v1/models' says what each is for."
    )
    return ApiError(404, message, code="model_not_found", param="model")


def auto_cannot_embed() -> ApiError:
    return bad_request(
        "Vectors of different models cannot be compared, so 'auto' does not choose one: name it.",
        "model",
        "invalid_value",
    )


def dearer_than_allowed(model: str) -> ApiError:
    message = f"'{model}' costs more than provider.max_price allows."
    return bad_request(message, "provider.max_price", "max_price_exceeded")


def model_not_priced(model: str, tier: str) -> ApiError:
    return ApiError(
        400,
        f"The model '{model}' has no price for the service tier '{tier}'.",
        code="model_not_priced",
        param="model",
    )


def unit_not_priced(model: str, unit: str) -> ApiError:
    """Of an image it names the size and the quality, for these may be others."""
    kind, _, rest = unit.partition("/")
    size, _, quality = rest.partition("/")
    what = f"image of size '{size}' and quality '{quality}'" if rest else kind.replace("_", " ")
    message = f"The model '{model}' has no price for this unit: {what}."
    return bad_request(message, "size" if rest else "model", "model_not_priced")


def model_not_supported(model: str, verb: str) -> ApiError:
    message = f"The model '{model}' does not {verb}: 'GET /v1/models' says what each is for."
    return bad_request(message, "model", "model_not_supported")


def context_length_exceeded(message: str, param: str) -> ApiError:
    return bad_request(message, param, "context_length_exceeded")


def rate_limited(message: str, retry_after_s: float, extra_headers: Mapping[str, str]) -> ApiError:
    return ApiError(
        429,
        message,
        type="rate_limit_error",
        code="rate_limit_exceeded",
        retry_after_s=retry_after_s,
        extra_headers=extra_headers,
    )


def insufficient_quota(message: str, status: QuotaStatus) -> ApiError:
    return ApiError(
        status.value,
        message,
        type=QUOTA_CODE,
        code=QUOTA_CODE,
        stop_retrying=True,
    )


def overloaded(message: str, retry_after_s: float) -> ApiError:
    return ApiError(
        503,
        message,
        type="service_unavailable_error",
        code="server_is_overloaded",
        retry_after_s=retry_after_s,
    )


def provider_misconfigured() -> ApiError:
    """Says nothing of what a server told us: that is for operators."""
    return ApiError(
        503,
        "The server of this model does not take our calls as it is set up here. Its operator can"
        " see why; until that is mended, another try fails too.",
        type="service_unavailable_error",
        code="provider_misconfigured",
        retry_after_s=MENDED_S,
    )


def deadline_passed(message: str, retry_after_s: float) -> ApiError:
    return ApiError(
        504,
        message,
        type="timeout_error",
        code="deadline_exceeded",
        retry_after_s=retry_after_s,
    )


def upstream_lost(message: str) -> ApiError:
    return ApiError(502, message, type="server_error", code="upstream_disconnected")


def internal_error() -> ApiError:
    return ApiError(
        500, "The server had an error while processing your request.", type="server_error"
    )
