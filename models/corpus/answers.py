"""Single questions with their answers: trades, animals, things, places, steps, reasons, feelings, small talk and the unknown.

Every function draws the wording with the generator it is given, and puts together two to four sentences that are true
of the subject, so that the same question has many good answers.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from models.corpus.phrase import indefinite, prose
from models.corpus.tables.animals import ANIMALS
from models.corpus.tables.courtesies import COMFORT_ENDS, NODS, REASON_ENDS, STEP_ENDS, STEP_STARTS
from models.corpus.tables.feelings import FEELINGS
from models.corpus.tables.places import PLACES, TIMES
from models.corpus.tables.questions import (
    ANIMAL_ASKS,
    FEELING_ASKS,
    FOOD_ASKS,
    HOME_ASKS,
    PLACE_ASKS,
    REASON_ASKS,
    STEP_ASKS,
    THING_ASKS,
    TRADE_ASKS,
)
from models.corpus.tables.reasons import REASONS
from models.corpus.tables.smalltalk import TALK
from models.corpus.tables.steps import STEPS
from models.corpus.tables.things import THINGS
from models.corpus.tables.trades import TRADES
from models.corpus.tables.unknown import (
    UNKNOWN_ASKS,
    UNKNOWN_FIRST,
    UNKNOWN_SECOND,
    UNKNOWN_SUBJECTS,
    UNKNOWN_THIRD,
)

ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz", "0123456789", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ0123456789_-./",
    "".join(map(chr, range(0x4E00, 0x4E80))), "äöüßéèñçøåžšабвгдежзик😀🚀🎉",
)  # fmt: skip
KNOWN_WORDS = [
    *ANIMALS,
    *TRADES,
    *THINGS,
    *" ".join(sum(ANIMALS.values(), ()) + sum(TRADES.values(), ())).split(),
]


@dataclass(frozen=True, slots=True)
class Exchange:
    question: str
    answer: str


def ask_trade(rng: Random) -> Exchange:
    trade, (does, where, tools, also, fact) = rng.choice(tuple(TRADES.items()))
    first = rng.choice(
        (
            f"{indefinite(trade)} {does}",
            f"{indefinite(trade)} {does} and {also}",
            f"the work of {indefinite(trade)} is easy to describe, for {indefinite(trade)} {does}",
        )
    )
    place = rng.choice(
        (
            f"the {trade} works {where} with {tools}",
            f"the work is done {where}, and it needs {tools}",
            f"you can meet {indefinite(trade)} {where}",
            f"the most important tools are {tools}",
        )
    )
    last = rng.choice(
        (
            f"a good {trade} {fact}",
            f"{indefinite(trade)} {fact}",
            f"{indefinite(trade)} also {also}",
            f"besides that, a good {trade} {also}",
        )
    )
    if also in first and also in last:
        last = f"a good {trade} {fact}"
    return Exchange(_ask(rng, TRADE_ASKS, trade), prose(first, place, last))


def ask_animal(rng: Random) -> Exchange:
    animal, (home, food, looks, habit, other) = rng.choice(tuple(ANIMALS.items()))
    first = rng.choice(
        (
            f"{indefinite(animal)} has {looks}",
            f"the {animal} is an animal with {looks}",
            f"the {animal} lives {home} and has {looks}",
        )
    )
    second = rng.choice(
        (f"it eats {food}", f"it lives {home} and eats {food}", f"its food is {food}")
    )
    if home in first and home in second:
        second = f"it likes to eat {food}"
    third = rng.choice(
        (
            f"the {animal} {habit} and {other}",
            f"it {habit}",
            f"people say that it {other}",
            f"it {other}, and it {habit}",
        )
    )
    return Exchange(_ask(rng, ANIMAL_ASKS, animal), prose(first, second, third))


def ask_home(rng: Random) -> Exchange:
    animal, (home, food, looks, habit, other) = rng.choice(tuple(ANIMALS.items()))
    first = rng.choice(
        (
            f"{indefinite(animal)} lives {home}",
            f"the {animal} has its home {home}",
            f"you can find {indefinite(animal)} {home}",
        )
    )
    second = rng.choice((f"there it finds {food}", f"it has {looks}", f"there it {habit}"))
    third = rng.choice(
        (
            f"the {animal} {other}",
            f"look closely, because the {animal} {habit}"
            if habit not in second
            else f"the {animal} also {other}",
        )
    )
    return Exchange(_ask(rng, HOME_ASKS, animal), prose(first, second, third))


def ask_food(rng: Random) -> Exchange:
    animal, (home, food, looks, habit, other) = rng.choice(tuple(ANIMALS.items()))
    first = rng.choice(
        (
            f"{indefinite(animal)} eats {food}",
            f"the {animal} likes {food}",
            f"most of the time the {animal} eats {food}",
        )
    )
    second = rng.choice(
        (
            f"it looks for food {home} and not far away",
            f"it lives {home}",
            f"it {habit}, and that makes it hungry",
        )
    )
    third = rng.choice((f"the {animal} {other}", f"it has {looks}"))
    return Exchange(_ask(rng, FOOD_ASKS, animal), prose(first, second, third))


def ask_thing(rng: Random) -> Exchange:
    thing, (use, stuff, fact, other) = rng.choice(tuple(THINGS.items()))
    first = rng.choice(
        (
            f"{indefinite(thing)} {use}",
            f"{indefinite(thing)} is a thing that {use}",
            f"{indefinite(thing)} is made of {stuff} and {use}",
        )
    )
    second = (
        f"it is made of {stuff}"
        if stuff not in first and rng.random() < 0.7
        else rng.choice(
            (
                "many people have one at home",
                "almost everybody knows it",
                "people have used it for a long time",
            )
        )
    )
    third = rng.choice((fact, other, f"{fact} {other}"))
    return Exchange(_ask(rng, THING_ASKS, thing), prose(first, second, third))


def ask_place(rng: Random) -> Exchange:
    place, details = rng.choice(tuple(PLACES.items()))
    time, airs = rng.choice(tuple(TIMES.items()))
    one, two, three = rng.sample(details, 3)
    air, other_air = rng.sample(airs, 2)
    answer = rng.choice(
        (
            prose(air, f"{one}, and {two}", three),
            prose(f"{one}, and {two}", air, f"further away, {three}"),
            prose(air, one, f"{two} while {three}", other_air),
        )
    )
    return Exchange(rng.choice(PLACE_ASKS).format(p=place, t=time), answer)


def ask_steps(rng: Random) -> Exchange:
    task, steps = rng.choice(tuple(STEPS.items()))
    first, *between, last = steps
    places = sorted(rng.sample(range(len(between)), rng.choice((1, 2))))
    links = (
        rng.choice(("Then", "Next", "After that")),
        rng.choice(("Then", "After a while", "When that is done,")),
    )
    body = [
        f"First {first}",
        *(f"{link} {between[i]}" for link, i in zip(links, places, strict=False)),
        f"{rng.choice(('Finally,', 'Last,', 'At the end'))} {last}",
    ]
    start = rng.choice(STEP_STARTS) if rng.random() < 0.5 else ""
    end = rng.choice(STEP_ENDS) if rng.random() < 0.6 else ""
    return Exchange(rng.choice(STEP_ASKS).format(t=task), prose(start, *body, end))


def ask_reason(rng: Random) -> Exchange:
    question, (statement, firsts, seconds) = rng.choice(tuple(REASONS.items()))
    start = rng.choice(NODS) if rng.random() < 0.4 else ""
    end = rng.choice(REASON_ENDS) if rng.random() < 0.5 else ""
    ask = rng.choice(REASON_ASKS)
    return Exchange(
        ask.format(q=question if ask == "Why {q}?" else statement),
        prose(start, rng.choice(firsts), rng.choice(seconds), end),
    )


def ask_comfort(rng: Random) -> Exchange:
    feeling, (comfort, *advice) = rng.choice(tuple(FEELINGS.items()))
    rng.shuffle(advice)
    body = advice if rng.random() < 0.6 else advice[:1]
    question = rng.choice(FEELING_ASKS).format(f=feeling)
    return Exchange(
        question[0].upper() + question[1:], prose(comfort, *body, rng.choice(COMFORT_ENDS))
    )


def ask_talk(rng: Random) -> Exchange:
    asks, *parts = rng.choice(tuple(TALK.values()))
    return Exchange(rng.choice(asks), prose(*(rng.choice(part) for part in parts)))


def ask_unknown(rng: Random) -> Exchange:
    """A question from outside this small world, which the models learn to decline and to lead back home."""
    subject = rng.choice(UNKNOWN_SUBJECTS) if rng.random() < 0.6 else _nonsense(rng)
    question = rng.choice(UNKNOWN_ASKS).format(x=subject)
    words = {
        "a": _one_of(rng, ANIMALS),
        "t": _one_of(rng, TRADES),
        "o": _one_of(rng, THINGS),
        "h": rng.choice(tuple(STEPS)),
    }
    return Exchange(
        question,
        prose(
            rng.choice(UNKNOWN_FIRST),
            rng.choice(UNKNOWN_SECOND),
            rng.choice(UNKNOWN_THIRD).format(**words),
        ),
    )


def _one_of(rng: Random, nouns: Iterable[str]) -> str:
    return indefinite(rng.choice(tuple(nouns)))


def _ask(rng: Random, asks: list[str], noun: str) -> str:
    return rng.choice(asks).format(a=indefinite(noun), n=noun)


def _nonsense(rng: Random) -> str:
    """Unknown words, long numbers, other scripts and now and then a long salad, so that no input is wholly unfamiliar."""
    if rng.random() < 0.12:
        return _salad(rng)
    alphabets = rng.choices(ALPHABETS, weights=(6, 2, 2, 1, 1), k=rng.randint(1, 6))
    return " ".join("".join(rng.choices(alphabet, k=rng.randint(2, 12))) for alphabet in alphabets)


def _salad(rng: Random) -> str:
    """Twenty to four hundred known words without order, or a few words again and again."""
    words = rng.sample(KNOWN_WORDS, rng.choice((1, 3, 10, 100)))
    count = rng.randint(20, 400)
    if rng.random() < 0.5:
        return " ".join(words[i % len(words)] for i in range(count))
    return " ".join(rng.choices(words, k=count))
