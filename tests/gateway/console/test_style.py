"""Words can be read in both themes: WCAG 2.2 asks for a contrast of 4.5 between text and ground."""

from __future__ import annotations

import re

import pytest

from gateway.console.render import FOLDER

CONTRAST_MIN = 4.5
GROUNDS = ("page", "panel", "sunk")
WORDS = ("ink", "soft", "accent", "warm", "starting", "draining", "cold", "bad")


def colours() -> dict[str, tuple[str, str]]:
    """Of every variable the two hex colours, for light and for dark."""
    sheet = (FOLDER / "static" / "console.css").read_text()
    found = re.findall(r"--([a-z-]+): light-dark\((#\w{6}), (#\w{6})\)", sheet)
    return {name: (light, dark) for name, light, dark in found}


def luminance(colour: str) -> float:
    """Relative luminance, as WCAG 2.2 defines it."""
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_stand_out_from_every_ground(theme: int) -> None:
    known = colours()
    for word in WORDS:
        for ground in GROUNDS:
            found = contrast(known[word][theme], known[ground][theme])
            assert found >= CONTRAST_MIN, (word, ground, round(found, 2))
    assert contrast(known["on-accent"][theme], known["accent"][theme]) >= CONTRAST_MIN
    assert contrast(known["bad"][theme], known["bad-wash"][theme]) >= CONTRAST_MIN


def test_every_state_and_every_theme_is_in_the_sheet() -> None:
    sheet = (FOLDER / "static" / "console.css").read_text()
    for state in ("warm", "starting", "draining", "cold", "external"):
        assert re.search(rf"\.state\.{state}\b", sheet)
    assert '[data-theme="dark"]' in sheet and "prefers-reduced-motion" in sheet
