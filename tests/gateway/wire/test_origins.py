"""Errors of a translated body name the caller's own fields."""

from __future__ import annotations

import pytest

from gateway.errors import ApiError
from gateway.wire.bodies.origins import by_callers_names, by_origin

ORIGINS = {
    "messages": "input",
    "messages[1]": "input[3]",
    "messages[1].tool_calls[0].id": "input[4].call_id",
    "tools[*].function": "tools[*]",
    "a[*].b[*]": "b[*].a[*]",
}


@pytest.mark.parametrize(
    ("path", "own"),
    [
        ("messages", "input"),
        ("messages[0].content", "input[0].content"),
        ("messages[1].content[2].text", "input[3].content[2].text"),
        ("messages[1].tool_calls[0].id", "input[4].call_id"),
        ("messages[10]", "input[10]"),
        ("tools[12].function.name", "tools[12].name"),
        ("a[1].b[2].c", "b[1].a[2].c"),
        ("messages_of_another", "messages_of_another"),
        ("model", "model"),
    ],
)
def test_longest_known_beginning_of_a_path_counts(path: str, own: str) -> None:
    found = by_origin(ApiError(400, f"Invalid '{path}'.", param=path, code="c"), ORIGINS)
    assert (found.param, found.message, found.code) == (own, f"Invalid '{own}'.", "c")


def test_what_leaves_a_block_is_told_by_its_origin() -> None:
    with pytest.raises(ApiError) as caught, by_callers_names(ORIGINS):
        raise ApiError(400, "No.", param="messages")
    assert caught.value.param == "input"


def test_error_without_a_field_is_as_it_was() -> None:
    refused = ApiError(429, "Too fast.", retry_after_s=2.0)
    assert by_origin(refused, ORIGINS) is refused


def test_nothing_else_of_an_error_is_lost() -> None:
    refused = ApiError(
        503,
        "Busy.",
        type="t",
        code="c",
        param="messages",
        retry_after_s=2.0,
        stop_retrying=True,
        extra_headers={"x": "y"},
    )
    found = by_origin(refused, ORIGINS)
    assert found.headers() == refused.headers()
    assert found.as_dict() == refused.as_dict() | {"param": "input"}
