"""Where the files of a checkpoint come from: a gateway's store, a hub, or an S3-compatible store.

A source turns the name of a file into a request, and knows nothing of downloads. Credentials are
the variables that the clients of each have: HF_ENDPOINT, HF_TOKEN, AWS_ACCESS_KEY_ID and its like.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from urllib.parse import quote
from urllib.request import Request

from workers.weights.sigv4 import AwsKeys, signed_headers

SECRET_HEADER = "x-sluice-worker-secret"
STORE_PATH = "/internal/v1/weights"
"""Of a gateway: what its store holds, for workers alone."""
HUB, S3 = "hf://", "s3://"
HUB_URL = "https://huggingface.co"
REGION = "us-east-1"
_HUB = re.compile(
    r"hf://(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9._-]+)"
    r"(@(?P<revision>[A-Za-z0-9][A-Za-z0-9._/-]*))?"
)
_S3 = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])/(?P<prefix>[^?#\s]+)")


class BadSource(ValueError):
    """A text that names no source, and what it would have to look like."""


class Source(Protocol):
    @property
    def name(self) -> str:
        """For people to read."""
        ...

    def request(self, file: str, headers: Mapping[str, str]) -> Request: ...


@dataclass(frozen=True, slots=True)
class HubName:
    name: str
    revision: str | None

    def __str__(self) -> str:
        return f"{HUB}{self.name}" + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True, slots=True)
class S3Prefix:
    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{S3}{self.bucket}/{self.prefix}"


def is_source(text: str) -> bool:
    """Whether a text names a source, rather than a folder."""
    return "://" in text


def read_source(text: str) -> HubName | S3Prefix:
    """Raises BadSource."""
    if match := _HUB.fullmatch(text):
        return HubName(match["name"], match["revision"])
    if (match := _S3.fullmatch(text)) and ".." not in match["prefix"].split("/"):
        return S3Prefix(match["bucket"], match["prefix"].strip("/"))
    raise BadSource(f"'{text}' is neither hf://ORGANIZATION/NAME@REVISION nor s3://BUCKET/PREFIX")


@dataclass(frozen=True, slots=True)
class GatewayStore:
    """One checkpoint in the store of a gateway."""

    url: str
    id: str
    secret: str

    @property
    def name(self) -> str:
        return f"the gateway at {self.url}"

    def request(self, file: str, headers: Mapping[str, str]) -> Request:
        url = f"{self.url.rstrip('/')}{STORE_PATH}/{self.id}/{quote(file)}"
        return Request(url, headers={**headers, SECRET_HEADER: self.secret})


@dataclass(frozen=True, slots=True)
class Hub:
    """One commit of a name on a hub."""

    hub_name: HubName
    url: str = HUB_URL
    token: str | None = None

    @property
    def name(self) -> str:
        return str(self.hub_name)

    def request(self, file: str, headers: Mapping[str, str]) -> Request:
        commit = quote(self.hub_name.revision or "main", safe="")
        url = f"{self.url.rstrip('/')}/{self.hub_name.name}/resolve/{commit}/{quote(file)}"
        return Request(url, headers={**headers, **self._authorization})

    @property
    def _authorization(self) -> Mapping[str, str]:
        return {"authorization": f"Bearer {self.token}"} if self.token else {}


@dataclass(frozen=True, slots=True)
class S3Store:
    """One prefix of a bucket. Without keys requests are not signed, as public buckets take them.
    `url`: of a store that is not Amazon's, whose buckets are paths."""

    place: S3Prefix
    now: Callable[[], datetime]
    keys: AwsKeys | None = None
    region: str = REGION
    url: str | None = None

    @property
    def name(self) -> str:
        return str(self.place)

    def request(self, file: str, headers: Mapping[str, str]) -> Request:
        url = f"{self._bucket_url}/{quote(f'{self.place.prefix}/{file}', safe='/-_.~')}"
        if self.keys is None:
            return Request(url, headers=dict(headers))
        signed = signed_headers(url, headers, self.keys, region=self.region, now=self.now())
        return Request(url, headers=signed)

    @property
    def _bucket_url(self) -> str:
        bucket = self.place.bucket
        if self.url is not None:
            return f"{self.url.rstrip('/')}/{bucket}"
        if "." in bucket:  # no certificate of Amazon's covers it
            return f"https://s3.{self.region}.amazonaws.com/{bucket}"
        return f"https://{bucket}.s3.{self.region}.amazonaws.com"


def open_source(
    text: str, environment: Mapping[str, str], now: Callable[[], datetime]
) -> Hub | S3Store:
    """What a text names, with the credentials of an environment. Raises BadSource."""
    place = read_source(text)
    if isinstance(place, HubName):
        endpoint = environment.get("HF_ENDPOINT") or HUB_URL
        return Hub(place, endpoint, environment.get("HF_TOKEN") or None)
    id, secret = environment.get("AWS_ACCESS_KEY_ID"), environment.get("AWS_SECRET_ACCESS_KEY")
    token = environment.get("AWS_SESSION_TOKEN") or None
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or REGION
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL") or ""
    keys = AwsKeys(id, secret, token) if id and secret else None
    return S3Store(place, now, keys, region, endpoint or None)
