"""Values that a user's text holds and a form or a tool takes over: known ones, and new ones made of syllables."""

from collections.abc import Sequence
from random import Random

from models.corpus.tables.facts import (
    CITIES,
    FIRST_NAMES,
    LAST_NAMES,
    MONTHS,
    SYLLABLES,
    TOWNS,
    WEEKDAYS,
)

SMALL_NUMBERS = ("one", "two", "three", "four", "five", "six")


def draw_word(rng: Random) -> str:
    """An invented word, which a model can only copy."""
    return "".join(rng.choices(SYLLABLES, k=rng.choice((2, 2, 3))))


def draw_person(rng: Random) -> str:
    first = rng.choice(FIRST_NAMES) if rng.random() < 0.6 else draw_word(rng).title()
    if rng.random() < 0.5:
        return first
    return f"{first} {rng.choice(LAST_NAMES) if rng.random() < 0.5 else draw_word(rng).title()}"


def draw_city(rng: Random) -> str:
    chance = rng.random()
    if chance < 0.25:
        return draw_word(rng).title()
    return rng.choice(tuple(CITIES)) if chance < 0.65 else rng.choice(TOWNS)


def draw_date(rng: Random) -> str:
    kind = rng.randrange(4)
    if kind == 0:
        return rng.choice(WEEKDAYS)
    if kind == 1:
        return f"{rng.choice(MONTHS)} {rng.randint(1, 28)}"
    if kind == 2:
        return f"{rng.choice(MONTHS)} {rng.randint(1, 28)}, {rng.randint(1950, 2027)}"
    return draw_iso_date(rng)


def draw_iso_date(rng: Random) -> str:
    return f"{rng.randint(1950, 2027)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"


def draw_time(rng: Random) -> str:
    return f"{rng.randint(0, 23):02d}:{rng.choice((0, 15, 30, 45)):02d}"


def draw_email(rng: Random) -> str:
    who = rng.choice(FIRST_NAMES).lower() if rng.random() < 0.5 else draw_word(rng)
    host = rng.choice(("example.com", "mail.org", f"{draw_word(rng)}.com", f"{draw_word(rng)}.net"))
    return f"{who}@{host}"


def draw_phone(rng: Random) -> str:
    return (
        f"555-{rng.randint(0, 9999):04d}" if rng.random() < 0.5 else str(rng.randint(10**6, 10**7))
    )


def draw_price(rng: Random) -> float:
    return rng.randint(1, 400) + rng.choice((0.5, 0.99, 0.25, 0.95, 0.75))


def listed(things: Sequence[str]) -> str:
    """A list as English writes it: `a, b and c`."""
    return things[0] if len(things) == 1 else f"{', '.join(things[:-1])} and {things[-1]}"
