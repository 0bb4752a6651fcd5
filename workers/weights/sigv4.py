"""Signatures of S3: AWS Signature Version 4 for a GET, by the published algorithm (AWS General
Reference, "Signature Version 4 signing process"). Pure."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class AwsKeys:
    """`token`: of keys that hold for a time only."""

    id: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def signed_headers(
    url: str,
    headers: Mapping[str, str],
    keys: AwsKeys,
    *,
    region: str,
    now: datetime,
    service: str = "s3",
) -> dict[str, str]:
    """The headers of a GET without a body, signed. `url` is written as it goes on the wire."""
    parts = urlsplit(url)
    stamp = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    extra = {"host": parts.netloc, "x-amz-date": stamp}
    if service == "s3":
        extra["x-amz-content-sha256"] = EMPTY_SHA256
    if keys.token is not None:
        extra["x-amz-security-token"] = keys.token
    every = {name.lower(): " ".join(value.split()) for name, value in {**headers, **extra}.items()}
    names = ";".join(sorted(every))
    request = "\n".join(
        [
            *("GET", parts.path or "/", _query(parts.query)),
            *(f"{name}:{every[name]}" for name in sorted(every)),
            *("", names, EMPTY_SHA256),
        ]
    )
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(request.encode()).hexdigest()
    signature = _signature(keys.secret, scope, "\n".join([ALGORITHM, stamp, scope, digest]))
    credential = f"Credential={keys.id}/{scope}"
    every["authorization"] = (
        f"{ALGORITHM} {credential}, SignedHeaders={names}, Signature={signature}"
    )
    return every


def _query(query: str) -> str:
    pairs = sorted(
        (quote(name, safe="-_.~"), quote(value, safe="-_.~"))
        for name, value in parse_qsl(query, keep_blank_values=True)
    )
    return "&".join(f"{name}={value}" for name, value in pairs)


def _signature(secret: str, scope: str, text: str) -> str:
    key = f"AWS4{secret}".encode()
    for part in [*scope.split("/"), text]:
        key = hmac.digest(key, part.encode(), "sha256")
    return key.hex()
