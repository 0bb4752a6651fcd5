"""Lines are called by words in the language of the buyer."""

from typing import Any

import pytest

from billing.documents.descriptions import (
    ENGLISH,
    GERMAN,
    description_of,
    paid_credit,
    promotional_credit,
)
from billing.invoices.invoicing import LineKind

PLAIN = {"description": "", "kind": "usage", "model": "tale-large", "tier": "", "batch": False}


def described(language: str, **changes: Any) -> str:
    row = {**PLAIN, "component": "cached_input", "grant_id": "", **changes}
    return description_of(row, language)


@pytest.mark.parametrize(
    ("language", "words"),
    [("en", "cached input"), ("de", "Eingabe aus dem Cache"), ("fr", "cached input")],
)
def test_components_have_words_of_the_language(language: str, words: str) -> None:
    assert described(language) == f"tale-large, {words}"


def test_names_and_what_somebody_wrote_stand_as_they_are() -> None:
    assert described("de", description="Onboarding") == "Onboarding"
    assert described("de", component="image/1024x1024") == "tale-large, Bilder/1024x1024"
    of_correction = described("de", kind=LineKind.ADJUSTMENT, tier="flex", batch=True)
    assert of_correction == "tale-large, flex, batch, Eingabe aus dem Cache, zurückgenommen"
    assert described("en", model="", kind="credit", component="", grant_id="gr_1") == "credit, gr_1"


def test_credit_is_named_in_both_languages() -> None:
    assert promotional_credit("gr_1", "en") == "promotional credit gr_1"
    assert paid_credit(["gr_1", "gr_2"], "de") == "bezahltes Guthaben gr_1, gr_2"
    assert ENGLISH.keys() == GERMAN.keys()
