"""What the lines of an invoice are called, in the language of its buyer.

Pure. Names of models and tiers, and a description that somebody wrote, are printed as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from billing.invoices.invoicing import LineKind
from billing.prices.tariff import Component

ENGLISH = {
    **{component.value: component.value.replace("_", " ") for component in Component},
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
    "taken_back": "zurückgenommen",
    "promotional_credit": "Aktionsguthaben",
    "paid_credit": "bezahltes Guthaben",
}
LANGUAGES: Mapping[str, Mapping[str, str]] = {"en": ENGLISH, "de": GERMAN}


def description_of(line: Mapping[str, Any], language: str) -> str:
    if line["description"]:
        return str(line["description"])
    words = _words(language)
    component, slash, size = line["component"].partition("/")
    parts = [line["model"] or line["kind"], line["tier"], "batch" if line["batch"] else ""]
    parts += [words.get(component, component) + slash + size, line["grant_id"]]
    if line["kind"] == LineKind.ADJUSTMENT:
        parts.append(words["taken_back"])
    return ", ".join(part for part in parts if part)


def promotional_credit(grant: str, language: str) -> str:
    return f"{_words(language)['promotional_credit']} {grant}"


def paid_credit(grants: Iterable[str], language: str) -> str:
    return f"{_words(language)['paid_credit']} {', '.join(grants)}"


def _words(language: str) -> Mapping[str, str]:
    """English where a language has no words here."""
    return LANGUAGES.get(language, ENGLISH)
