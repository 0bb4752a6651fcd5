"""What the lines of an invoice are called, in the language of its buyer.

Pure. Names of models and tiers, and what somebody wrote, are printed as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from billing.documents.forms.words import grouped, whole
from billing.invoices.invoicing import LineKind
from billing.money import usd
from billing.prices.tariff import Component
from billing.terms.term import (
    AllowanceTerm,
    AmountTerm,
    MinimumTerm,
    PercentTerm,
    SelectiveTerm,
    Term,
    TierMode,
    TierTerm,
)

PPM_PER_PERCENT = 10_000

ENGLISH = {
    **{component.value: component.value.replace("_", " ") for component in Component},
    "credit": "credit",
    "tokens": "tokens",
    "percent_off": "{rate} % discount",
    "amount_off": "discount of {amount} USD a month",
    "minimum_spend": "minimum of {amount} USD a month, what is lacking to it",
    "allowance": "{units} {selection} free in each month",
    TierMode.GRADUATED.value: "graduated prices of {selection}",
    TierMode.VOLUME.value: "volume prices of {selection}",
    "taken_back": "taken back",
    "promotional_credit": "promotional credit",
    "paid_credit": "paid credit",
}
GERMAN = {
    "input": "Eingabe",
    "cached_input": "Eingabe aus dem Cache",
    "cache_write": "Eingabe in den Cache",
    "output": "Ausgabe",
    "reasoning": "Reasoning",
    "request": "Aufrufe",
    "minimum": "Mindestbetrag je Aufruf",
    "gpu_ms": "GPU-Zeit",
    "audio_input": "Audio-Eingabe",
    "image_input": "Bild-Eingabe",
    "audio_output": "Audio-Ausgabe",
    "image_output": "Bild-Ausgabe",
    "search_unit": "Sucheinheiten",
    "image": "Bilder",
    "second": "Sekunden",
    "character": "Zeichen",
    "credit": "Guthaben",
    "tokens": "Token",
    "percent_off": "{rate} % Rabatt",
    "amount_off": "Rabatt von {amount} USD im Monat",
    "minimum_spend": "Mindestumsatz von {amount} USD im Monat, Differenz dazu",
    "allowance": "Monatlich frei: {units} {selection}",
    TierMode.GRADUATED.value: "Staffelpreise: {selection}",
    TierMode.VOLUME.value: "Mengenpreise: {selection}",
    "taken_back": "zurückgenommen",
    "promotional_credit": "Aktionsguthaben",
    "paid_credit": "bezahltes Guthaben",
}
LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "de": GERMAN}


def description_of(line: Mapping[str, Any], language: str) -> str:
    if line["description"]:
        return str(line["description"])
    words, kind = _words(language), line["kind"]
    parts = [line["model"] or words.get(kind, kind), line["tier"], "batch" if line["batch"] else ""]
    parts += [_component(line["component"], words), line["grant_id"]]
    if line["kind"] == LineKind.ADJUSTMENT:
        parts.append(words["taken_back"])
    return ", ".join(part for part in parts if part)


def description_of_term(term: Term, language: str) -> str:
    """What lines of a term say: its name, or what it gives."""
    if term.name:
        return term.name
    words = _words(language)
    match term:
        case PercentTerm(rate_ppm=rate_ppm):
            rate = grouped(f"{rate_ppm / PPM_PER_PERCENT:g}", language)
            return words["percent_off"].format(rate=rate)
        case AmountTerm(amount_nanousd=amount):
            return words["amount_off"].format(amount=grouped(usd(amount), language))
        case MinimumTerm(amount_nanousd=amount):
            return words["minimum_spend"].format(amount=grouped(usd(amount), language))
        case AllowanceTerm(units=units):
            selection = _selection(term, words)
            return words["allowance"].format(units=whole(units, language), selection=selection)
        case TierTerm(mode=mode):
            return words[mode.value].format(selection=_selection(term, words))


def _selection(term: SelectiveTerm, words: Mapping[str, str]) -> str:
    component = _component(term.component, words) or words["tokens"]
    return " ".join(word for word in (term.model, term.service_tier, component) if word)


def _component(component: str, words: Mapping[str, str]) -> str:
    kind, slash, size = component.partition("/")
    return words.get(kind, kind) + slash + size


def promotional_credit(grant: str, language: str) -> str:
    return f"{_words(language)['promotional_credit']} {grant}"


def paid_credit(grants: Iterable[str], language: str) -> str:
    return f"{_words(language)['paid_credit']} {', '.join(grants)}"


def _words(language: str) -> Mapping[str, str]:
    """English where a language has no words here."""
    return LANGUAGES.get(language, ENGLISH)
