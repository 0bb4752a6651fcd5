"""A hub and an S3-compatible store, as servers on loopback of their shapes: what they are asked,
and who hears which secret."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.workers.weights.checkpoints import checkpoint, in_store, manifest
from tests.workers.weights.file_server import FileServer, served
from workers.weights.download import WeightsError
from workers.weights.sigv4 import AwsKeys, signed_headers
from workers.weights.sources import (
    BadSource,
    GatewayStore,
    Hub,
    HubName,
    S3Prefix,
    S3Store,
    Source,
    open_source,
    read_source,
)
from workers.weights.store import NodeStore

FILES = checkpoint(7, size=5000)
ID = manifest(FILES).checksum
COMMIT = "0123456789abcdef0123456789abcdef01234567"
KEYS = AwsKeys("AKIAEXAMPLE", "secret/of+keys")
NOW = datetime(2026, 11, 24, tzinfo=UTC)


def fetch(root: Path, gateway: FileServer, source: Source) -> Path:
    """What a node fetches whose gateway has the manifest alone."""
    store = NodeStore(root, bytes_max=None, now_ns=lambda: 1, pause=lambda s: None)
    return store.use(ID, GatewayStore(gateway.url, ID, "secret"), source).folder


def gateway() -> FileServer:
    return FileServer({path: c for path, c in in_store(FILES).items() if "manifest" in path})


def test_a_hub_is_asked_for_one_commit_and_sends_on_without_the_token(tmp_path: Path) -> None:
    heard: list[Mapping[str, str]] = []

    def elsewhere(target: str, headers: Mapping[str, str]) -> int:
        heard.append(headers)
        return 0

    place = f"/org/tiny/resolve/{COMMIT}"
    with (
        served(gateway()) as of_gateway,
        served(FileServer({"/blob": FILES["model.safetensors"]}, elsewhere)) as files,
        served(FileServer({f"{place}/config.json": FILES["config.json"]})) as hub,
    ):
        hub.check = lambda _, headers: 0 if headers.get("authorization") == "Bearer hf_1" else 401
        hub.redirects = {f"{place}/model.safetensors": f"{files.url}/blob"}
        files.cuts = [2000]
        folder = fetch(tmp_path, of_gateway, Hub(HubName("org/tiny", COMMIT), hub.url, "hf_1"))
        assert {n: (folder / n).read_bytes() for n in FILES} == FILES
        assert files.asked("blob") == [None, "bytes=2000-"]
    assert heard
    assert all("authorization" not in headers for headers in heard)


def checks_signatures(region: str) -> FileServer:
    """A store that signs what came itself, and compares."""

    def check(target: str, headers: Mapping[str, str]) -> int:
        given = headers.get("authorization", "")
        names = given.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        sent = {n: headers[n] for n in names if n in headers}
        extra = {n: v for n, v in sent.items() if not n.startswith("x-amz") and n != "host"}
        at = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        url = f"http://{headers['host']}{target}"
        ours = signed_headers(url, extra, KEYS, region=region, now=at)
        return 0 if ours["authorization"] == given else 403

    return FileServer({f"/models/some dir/v1/{n}": content for n, content in FILES.items()}, check)


def test_an_s3_store_believes_only_what_is_signed_with_its_keys(tmp_path: Path) -> None:
    place = S3Prefix("models", "some dir/v1")
    with served(gateway()) as of_gateway, served(checks_signatures("eu-west-3")) as s3:
        s3.cuts = [10_000, 3000]
        source = S3Store(place, lambda: NOW, KEYS, "eu-west-3", s3.url)
        folder = fetch(tmp_path / "node", of_gateway, source)
        assert {n: (folder / n).read_bytes() for n in FILES} == FILES
        assert s3.asked("model.safetensors") == [None, "bytes=3000-"]
        other = AwsKeys(KEYS.id, "another secret")
        for wrong in (
            S3Store(place, lambda: NOW, other, "eu-west-3", s3.url),
            S3Store(place, lambda: NOW, KEYS, "eu-west-1", s3.url),
        ):
            with pytest.raises(WeightsError, match=r"^s3://models/some dir/v1 answers 403 to "):
                fetch(tmp_path / "other", of_gateway, wrong)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("hf://org/name", HubName("org/name", None)),
        ("hf://org/na.me@refs/pr/1", HubName("org/na.me", "refs/pr/1")),
        ("s3://bucket/a/b/", S3Prefix("bucket", "a/b")),
    ],
)
def test_what_names_a_source_is_read(text: str, place: object) -> None:
    assert read_source(text) == place


@pytest.mark.parametrize(
    "text",
    [
        *("hf://name", "hf://org/name@", "hf://org/name/more", "s3://bucket", "s3://bucket/"),
        *("s3://Bucket/a", "s3://bucket/../x", "s3://bucket/a?b", "gs://bucket/a", "http://a/b"),
    ],
)
def test_what_names_none_is_refused_with_what_would(text: str) -> None:
    with pytest.raises(BadSource, match=r"neither hf://ORGANIZATION/NAME@REVISION nor s3://"):
        read_source(text)


def test_credentials_are_those_of_the_usual_variables() -> None:
    hub = open_source("hf://o/n@r", {"HF_ENDPOINT": "http://h", "HF_TOKEN": "t"}, lambda: NOW)
    assert hub == Hub(HubName("o/n", "r"), "http://h", "t")
    variables = {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "key",
        "AWS_SESSION_TOKEN": "token",
        "AWS_REGION": "eu-west-3",
        "AWS_ENDPOINT_URL_S3": "http://s3",
    }
    s3 = open_source("s3://b-1/p", variables, lambda: NOW)
    assert isinstance(s3, S3Store)
    assert (s3.keys, s3.region, s3.url) == (AwsKeys("id", "key", "token"), "eu-west-3", "http://s3")
    assert urlsplit(s3.request("f", {}).full_url).path == "/b-1/p/f"
    amazon = open_source("s3://bucket/p", {}, lambda: NOW)
    request = amazon.request("config.json", {})
    assert request.full_url == "https://bucket.s3.us-east-1.amazonaws.com/p/config.json"
    assert "Authorization" not in request.headers
