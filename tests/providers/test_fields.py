"""What goes on to a provider: every field is mapped, neutral, a label, or refused by its name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.account import account_of
from providers.cohere import event_of
from providers.fields import (
    ALWAYS,
    CHAT,
    LABELS,
    NEUTRAL,
    OWN,
    fields_for,
    refuse_what_is_elsewhere,
)
from providers.keys import Keys
from providers.library import words_of
from providers.refused import CallRefused
from providers.usage import usage_of

NAMES = sorted(
    CHAT | LABELS | ALWAYS | {"top_k", "min_p", "mock_response", "api_base", "fallbacks"}
)
VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
SUPPORTED = st.sets(st.sampled_from([*NAMES, "api_key"]))


@given(st.dictionaries(st.sampled_from(NAMES), VALUES), SUPPORTED, st.sampled_from([*OWN, "other"]))
def test_no_field_is_dropped_unsaid_and_none_that_steers_the_library_goes_on(
    body: dict[str, Any], supported: set[str], provider: str
) -> None:
    taken = CHAT & supported | OWN.get(provider, frozenset())
    try:
        sent = fields_for(provider, supported, body)
    except CallRefused as refused:
        assert refused.status == 400 and refused.param in body and refused.param not in taken
        return
    assert sent.keys() <= taken
    for name, value in body.items():
        unsaid = name in ALWAYS | LABELS or value is None or NEUTRAL.get(name) == value
        assert name in sent or unsaid


@pytest.mark.parametrize("variable", ["PATH", "SLUICE_PROVIDER_KEY_", "SLUICE_PROVIDER_KEY_NONE"])
def test_variable_that_is_no_key_is_refused_and_what_it_holds_not_told(variable: str) -> None:
    environ = {"PATH": "/bin", "SLUICE_PROVIDER_KEY_": "x"}
    with pytest.raises(CallRefused, match=variable) as refused:
        account_of("http://127.0.0.1", variable, Keys(environ))
    assert "/bin" not in str(refused.value)


@pytest.mark.parametrize("text", ['{"api_base": "http://x"}', "{broken", '{"api_key": 1}'])
def test_key_in_parts_has_known_parts_of_text(text: str) -> None:
    with pytest.raises(CallRefused, match="to hold a key, or JSON with"):
        account_of(None, "SLUICE_PROVIDER_KEY_X", Keys({"SLUICE_PROVIDER_KEY_X": text}))


@pytest.mark.parametrize("text", ["sk-one\nsk-two", '{"api_key": "sk-one\\nsk-two"}', "sk-\u00fc"])
def test_key_that_no_header_carries_is_refused_and_not_told(text: str) -> None:
    with pytest.raises(CallRefused, match="SLUICE_PROVIDER_KEY_X") as refused:
        account_of(None, "SLUICE_PROVIDER_KEY_X", Keys({"SLUICE_PROVIDER_KEY_X": text}))
    assert refused.value.status == 401 and "sk-" not in str(refused.value)


def test_key_of_a_file_wins_over_a_variable_and_no_other_file_is_read(tmp_path: Path) -> None:
    name = "SLUICE_PROVIDER_KEY_A"
    keys = Keys({name: "of the variable"}, tmp_path)
    assert keys.get(name) == "of the variable"
    (tmp_path / name).write_text(" of the file\n")
    assert keys.get(name) == "of the file"
    (tmp_path / name).write_text("")
    assert keys.get(name) is None, "an empty file holds no key"
    (tmp_path / "secret").write_text("never read")
    (tmp_path / "SLUICE_PROVIDER_KEY_").mkdir()
    for other in ("secret", "SLUICE_PROVIDER_KEY_/../secret", "SLUICE_PROVIDER_KEY_"):
        assert keys.get(other) is None


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ('litellm.BadRequestError: X - {"error": {"message": "too long"}}', "too long"),
        ("litellm.APIError: APIError: OpenAIException - it broke", "it broke"),
        ("it broke\nTraceback (most recent call last):\n  File /secret/place", "it broke"),
        ('litellm.X: {"type": "error", "error": {"type": "e", "message": "no"}}', "no"),
    ],
)
def test_words_of_an_error_are_the_providers_own(message: str, words: str) -> None:
    assert words_of(message) == words


@given(st.dictionaries(st.text(max_size=4), st.integers() | st.none() | st.text(max_size=2)))
def test_usage_of_anything_is_whole_and_not_negative(details: dict[str, Any]) -> None:
    usage = usage_of({"prompt_tokens": 5, "prompt_tokens_details": details, **details})
    assert usage is not None or details.get("prompt_tokens") == 0
    if usage is None:
        return
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert min(usage["prompt_tokens_details"].values()) >= 0


@pytest.mark.parametrize("said", [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}])
def test_usage_of_whoever_counts_nothing_is_none(said: dict[str, Any] | None) -> None:
    assert usage_of(said) is None


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest"}},
        {"type": "image_url", "image_url": "https://example.com/x.png"},
        {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
        {"type": "file", "file": {"file_id": "https://example.com/x.pdf"}},
        {"type": "video_url", "video_url": {"url": "https://example.com"}},
        "no part",
    ],
)
def test_what_would_be_fetched_for_a_caller_is_refused(part: Any) -> None:
    with pytest.raises(CallRefused) as refused:
        refuse_what_is_elsewhere([{"role": "user", "content": [part]}])
    assert (refused.value.status, refused.value.param) == (400, "messages")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    refuse_what_is_elsewhere([{"role": "user", "content": [{"type": "text"}, image]}])


def test_end_of_cohere_that_is_none_is_an_error() -> None:
    event = {"type": "message-end", "delta": {"finish_reason": "ERROR"}}
    with pytest.raises(RuntimeError, match="ERROR"):
        event_of(json.loads(json.dumps(event)))
