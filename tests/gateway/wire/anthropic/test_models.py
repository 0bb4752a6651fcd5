"""Pages of models: whichever way a client turns them, it sees each once and in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.wire.anthropic.models import page
from routing.types import Model

MODELS = [Model(f"m{number}", None, 8, 8, number, 0.5) for number in range(7)]


@given(st.integers(1, 9))
def test_pages_forwards_are_all_models_once(limit: int) -> None:
    found = page(MODELS, limit)
    seen = found["data"]
    while found["has_more"]:
        found = page(MODELS, limit, after_id=found["last_id"])
        assert 0 < len(found["data"]) <= limit
        seen = seen + found["data"]
    assert [model["id"] for model in seen] == [model.name for model in MODELS]


@given(st.integers(1, 9))
def test_pages_backwards_are_all_models_before_the_last(limit: int) -> None:
    found = page(MODELS, limit, before_id=MODELS[-1].name)
    seen = found["data"]
    while found["has_more"]:
        found = page(MODELS, limit, before_id=found["first_id"])
        assert 0 < len(found["data"]) <= limit
        seen = found["data"] + seen
    assert [model["id"] for model in seen] == [model.name for model in MODELS[:-1]]


def test_page_of_nothing_names_nobody() -> None:
    nobody = {"data": [], "first_id": None, "last_id": None, "has_more": False}
    assert page([], 5) == page(MODELS, 5, after_id="m6") == nobody
