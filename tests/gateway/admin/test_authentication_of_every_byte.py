"""The admin key opens as a whole or not at all."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.admin.authentication import is_admin
from gateway.errors import ApiError

KEY = "sk-admin-0123456789abcdef"
WRONG = [KEY[:-1], KEY[:5], KEY[1:], KEY + "0", KEY + KEY, KEY.upper(), KEY[:-1] + "0", "x", "ä"]


def told(bearer: str | None, expected: str | None = KEY) -> bool:
    guesses = SimpleNamespace(full_for_s=lambda *_: 0.0, welcome=lambda *_: None)
    parts = SimpleNamespace(
        settings=SimpleNamespace(admin_key=expected),
        outside=SimpleNamespace(clock=lambda: 0.0),
        wrong_keys=guesses,
    )
    headers = {"authorization": f"Bearer {bearer}"} if bearer is not None else {}
    app = SimpleNamespace(state=SimpleNamespace(parts=parts))
    return is_admin(cast(Any, SimpleNamespace(app=app, headers=headers, client=None)))


def test_the_whole_key_opens() -> None:
    assert told(KEY)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_part_of_the_key_or_more_than_it_does_not_open(wrong: str) -> None:
    assert not told(wrong)


@pytest.mark.parametrize("expected", [None, ""])
def test_nothing_opens_where_no_key_is_set(expected: str | None) -> None:
    assert not told("x", expected)


def test_nobody_is_no_admin() -> None:
    with pytest.raises(ApiError):
        told(None)
