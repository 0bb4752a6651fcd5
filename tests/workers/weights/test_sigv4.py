"""The published vectors of Signature Version 4 (aws-sig-v4-test-suite; the example of S3's own
reference), and Amazon's own library."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.weights.sigv4 import AwsKeys, signed_headers
from workers.weights.sources import S3Prefix, S3Store

SUITE_KEYS = AwsKeys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
SUITE_TIME = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
S3_KEYS = AwsKeys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


@pytest.mark.parametrize(
    ("query", "headers", "signature"),
    [
        ("", {}, "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
        (
            "?Param2=value2&Param1=value1",
            {},
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "",
            {"My-Header1": " value1", "My-Header2": ' "a   b   c"'},
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
    ],
)
def test_the_vectors_of_the_published_suite(
    query: str, headers: dict[str, str], signature: str
) -> None:
    signed = signed_headers(
        f"https://example.amazonaws.com/{query}",
        headers,
        SUITE_KEYS,
        region="us-east-1",
        now=SUITE_TIME,
        service="service",
    )
    assert signed["authorization"].endswith(f"Signature={signature}")


def test_the_example_of_s3s_own_reference() -> None:
    signed = signed_headers(
        "https://examplebucket.s3.amazonaws.com/test.txt",
        {"Range": "bytes=0-9"},
        S3_KEYS,
        region="us-east-1",
        now=datetime(2013, 5, 24, tzinfo=UTC),
    )
    assert signed["authorization"] == (
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        " SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        " Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )


@given(
    prefix=st.text(st.sampled_from("abcXYZ019-_.~ +()é="), min_size=1, max_size=12),
    token=st.sampled_from([None, "a-token/of=hours"]),
    start=st.integers(0, 2**40),
)
def test_amazons_own_library_signs_the_same(prefix: str, token: str | None, start: int) -> None:
    auth = pytest.importorskip("botocore.auth")
    AWSRequest = pytest.importorskip("botocore.awsrequest").AWSRequest
    Credentials = pytest.importorskip("botocore.credentials").Credentials
    keys = AwsKeys(S3_KEYS.id, S3_KEYS.secret, token)
    place = S3Prefix("bucket-1", prefix)
    store = S3Store(place, lambda: SUITE_TIME, keys, "eu-west-3", "http://127.0.0.1:9000")
    ours = store.request("model.safetensors", {"range": f"bytes={start}-"})
    sent = {name.lower(): value for name, value in ours.header_items()}
    theirs = AWSRequest("GET", ours.full_url, {"range": f"bytes={start}-"})
    theirs.context["timestamp"] = sent["x-amz-date"]
    theirs.headers["X-Amz-Date"] = sent["x-amz-date"]
    theirs.headers["X-Amz-Content-SHA256"] = sent["x-amz-content-sha256"]
    if token is not None:
        theirs.headers["X-Amz-Security-Token"] = token
    signer = auth.S3SigV4Auth(Credentials(keys.id, keys.secret, token), "s3", "eu-west-3")
    text = signer.string_to_sign(theirs, signer.canonical_request(theirs))
    assert sent["authorization"].endswith(f"Signature={signer.signature(text, theirs)}")
