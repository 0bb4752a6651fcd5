"""What is kept of a server's refusal: enough to mend it, no key and nothing of the call."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.fault import DETAIL_CHARS_MAX, KEY, QUOTE_CHARS, QUOTED, fault_of

SECRET = "sk-proj-Zx81/Qw+7vLk92"
CALL = json.dumps(
    {
        "model": "their-model-with-a-long-name",
        "messages": [{"role": "user", "content": "Who stole the green bicycle of my aunt?"}],
    }
).encode()

PIECES = st.sampled_from(
    [SECRET, SECRET[:9], f"{SECRET[:6]}****92", "Who stole the green bicycle", "no", "\n", "é", '"']
)


def detail(body: bytes, *secrets: str) -> str:
    return fault_of(401, body, secrets, CALL).detail


@given(st.lists(PIECES | st.text(max_size=30), max_size=40).map("".join), st.booleans())
def test_no_key_and_no_quotation_is_ever_kept(text: str, is_json: bool) -> None:
    body = json.dumps({"error": {"message": text}}) if is_json else text
    kept = detail(body.encode(), SECRET)
    assert len(kept) <= DETAIL_CHARS_MAX
    assert kept.isprintable() and "\n" not in kept
    assert SECRET[:6] not in kept
    assert "Who stole the green"[:QUOTE_CHARS] not in kept


def test_plain_refusal_is_kept_as_it_came() -> None:
    body = b'{"error":{"message":"The model `their-model-with-a-long-name` does not exist"}}'
    assert detail(body, SECRET) == body.decode()


@pytest.mark.parametrize(
    "echo",
    [SECRET, SECRET.replace("/", "\\/"), "\\u0073" + SECRET[1:], f"{SECRET[:7]}***{SECRET[-4:]}"],
    ids=["whole", "escaped", "as code points", "half hidden"],
)
def test_key_that_is_quoted_is_taken_out(echo: str) -> None:
    body = f'{{"error": {{"message": "Incorrect API key provided: {echo}, sorry."}}}}'
    assert detail(body.encode(), SECRET) == (
        f'{{"error":{{"message":"Incorrect API key provided: {KEY}, sorry."}}}}'
    )


def test_what_quotes_the_call_is_cut_off_there() -> None:
    body = b"Input should be shorter: 'Who stole the green bicycle of my aunt?' and the answer"
    assert detail(body) == f"Input should be shorter: '{QUOTED}"


def test_body_of_bytes_or_of_nothing_is_survived() -> None:
    assert detail(b"") == ""
    assert detail(b"[" * 100_000) == "[" * DETAIL_CHARS_MAX
    assert "\x00" not in detail(b"\xff\x00\x1b[31m")
