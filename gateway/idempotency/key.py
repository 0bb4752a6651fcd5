"""The `Idempotency-Key` of a call: whose it is, what it names, and what it was given for.

Pure. A key belongs to the API key that sent it (which keeps its identity while its secret is
rotated), so that nobody is ever shown an answer that another key has paid for. Neither the key nor
the body is kept: digests of them are.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.errors import ApiError, bad_request
from gateway.tenants.auth import Principal

HEADER = "idempotency-key"
KEY_CHARS_MAX = 255


@dataclass(frozen=True, slots=True)
class Keyed:
    """A call that is to run once, however often it is sent. `name` and `asked` are SHA-256s in
    hex: of the key as the client sent it, and of method, path and body."""

    organization: str
    api_key: str
    name: str
    request_digest: str


def keyed(keys: Sequence[str], principal: Principal, method: str, path: str, body: bytes) -> Keyed:
    """Of a call that has the header, so often; raises ApiError 400 for a key that no client means,
    and for several, of which it cannot be known which one is meant."""
    if len(keys) != 1:
        message = f"'Idempotency-Key' is there {len(keys)} times: a call has one."
        raise bad_request(message, code="invalid_idempotency_key")
    key = keys[0]
    if not 0 < len(key) <= KEY_CHARS_MAX or not (key.isascii() and key.isprintable()):
        message = f"'Idempotency-Key' must be 1 to {KEY_CHARS_MAX} printable ASCII characters."
        raise bad_request(message, code="invalid_idempotency_key")
    return Keyed(
        organization=principal.organization,
        api_key=principal.key,
        name=hashlib.sha256(key.encode()).hexdigest(),
        request_digest=digest(method, path, body),
    )


def digest(method: str, path: str, body: bytes) -> str:
    """Of what was asked, byte for byte: the same JSON spelled otherwise is another body."""
    hash_ = hashlib.sha256(f"{method} {path}\n".encode())
    hash_.update(body)
    return hash_.hexdigest()


def reused(request_id: str) -> ApiError:
    return ApiError(
        422,
        f"This Idempotency-Key was used for another request ({request_id}). Send a new key.",
        code="idempotency_key_reused",
        stop_retrying=True,
    )
