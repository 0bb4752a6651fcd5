"""Lines are called by words in the language of the buyer."""

from typing import Any

import pytest

from billing.documents.descriptions import (
    ENGLISH,
    GERMAN,
    description_of,
    description_of_term,
    paid_credit,
    promotional_credit,
)
from billing.invoices.invoicing import LineKind
from billing.terms.term import (
    AllowanceTerm,
    AmountTerm,
    MinimumTerm,
    PercentTerm,
    PriceStep,
    Term,
    TierMode,
    TierTerm,
)

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
    granted = {"model": "", "kind": "credit", "component": "", "grant_id": "gr_1"}
    assert described("en", **granted) == "credit, gr_1"
    assert described("de", **granted) == "Guthaben, gr_1"


def test_credit_is_named_in_both_languages() -> None:
    assert promotional_credit("gr_1", "en") == "promotional credit gr_1"
    assert paid_credit(["gr_1", "gr_2"], "de") == "bezahltes Guthaben gr_1, gr_2"
    assert ENGLISH.keys() == GERMAN.keys()


HELD: dict[str, Any] = {"term_id": "t", "first_month": "2026-11"}
STEPS = (PriceStep(None, 1),)


@pytest.mark.parametrize(
    ("term", "english", "german"),
    [
        (PercentTerm(rate_ppm=125_000, **HELD), "12.5 % discount", "12,5 % Rabatt"),
        (
            AmountTerm(amount_nanousd=1_500_500_000_000, **HELD),
            "discount of 1,500.50 USD a month",
            "Rabatt von 1.500,50 USD im Monat",
        ),
        (
            MinimumTerm(amount_nanousd=2_000_000_000_000, **HELD),
            "minimum of 2,000.00 USD a month, what is lacking to it",
            "Mindestumsatz von 2.000,00 USD im Monat, Differenz dazu",
        ),
        (
            AllowanceTerm(units=1_000_000, **HELD),
            "1,000,000 tokens free in each month",
            "Monatlich frei: 1.000.000 Token",
        ),
        (
            AllowanceTerm(units=5, component="image/1024x1024", **HELD),
            "5 image/1024x1024 free in each month",
            "Monatlich frei: 5 Bilder/1024x1024",
        ),
        (
            TierTerm(steps=STEPS, model="tale", service_tier="flex", component="input", **HELD),
            "graduated prices of tale flex input",
            "Staffelpreise: tale flex Eingabe",
        ),
        (
            TierTerm(steps=STEPS, mode=TierMode.VOLUME, component="cached_input", **HELD),
            "volume prices of cached input",
            "Mengenpreise: Eingabe aus dem Cache",
        ),
        (PercentTerm(rate_ppm=1, name="Welcome", **HELD), "Welcome", "Welcome"),
    ],
)
def test_term_says_what_it_gives_in_both_languages(term: Term, english: str, german: str) -> None:
    assert description_of_term(term, "en") == english == description_of_term(term, "fr")
    assert description_of_term(term, "de") == german
