"""Stories of four to seven sentences: a hero, a wish, a trouble, a way out and an ending that agree with one another."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from zlib import crc32

from models.corpus.phrase import indefinite, prose
from models.corpus.tables.animals import ANIMALS
from models.corpus.tables.names import HE_NAMES, MOODS, SHE_NAMES
from models.corpus.tables.plots import PLOTS
from models.corpus.tables.trades import TRADES

LEANING = 0.5
HEROES = (
    *ANIMALS,
    *TRADES,
    "girl",
    "boy",
    "king",
    "queen",
    "child",
    "giant",
    "witch",
    "wizard",
    "princess",
    "prince",
    "grandmother",
    "unicorn",
    "soldier",
)
GENDER = {"girl": "she", "boy": "he", "king": "he", "queen": "she", "witch": "she", "wizard": "he"} | {
    "princess": "she", "prince": "he", "grandmother": "she", "postman": "he", "fisherman": "he", "cow": "she", "hen": "she",
}  # fmt: skip

OPENINGS = (
    "Once there was {a} named {n}", "Once upon a time there was {a} called {n}", "{n} was {a}", "Long ago there lived {a} named {n}",
    "In a small village lived {a} named {n}", "Far away lived {a} called {n}", "There was once {a} whose name was {n}",
    "Behind the hills lived {a} named {n}", "This is the story of {n}, {a}",
)  # fmt: skip
WHEN = [
    "One morning {n}",
    "One day {s}",
    "One summer {n}",
    "One evening {s}",
    "In the spring {s}",
    "On a grey day {n}",
    "One winter {n}",
    "One Sunday {s}",
    "That autumn {n}",
    "{n}",
]
BUT = [
    "But",
    "Sadly,",
    "However,",
    "At first it went well, but then",
    "But alas,",
    "The trouble was that",
]
FEELING = (
    "{n} did not give up", "{n} sat down and thought for a while", "{n} wanted to cry", "{n} took a deep breath", "Many would have gone home, but not {n}",
    "{n} asked everybody for advice", "For a moment {s} lost all hope", "{n} felt very small", "{n} only laughed and tried again",
)  # fmt: skip
MEETING = (
    "Then {p} friend {f} the {k} came by", "Just then {f} the {k} came along the path", "{f}, {ak} from next door, saw it all",
    "Luckily {f} the {k} had heard everything", "So {s} asked {p} friend {f} the {k} for help", "Then {s} met {f}, an old {k}",
)  # fmt: skip
SPEECH = (
    '"Two heads are better than one," said {f}', '"Do not worry," said {f}', '"Let me help you," said {f}', '"I have an idea," said {f}',
    '"There is always a way," said {f}', '"We can do it together," said {f} with a smile',
)  # fmt: skip
SO = [
    "So",
    "In the end",
    "After a while",
    "At last",
    "With a little luck",
    "Step by step",
    "Finally",
]
ENDINGS = (
    "{n} was so happy that {s} danced all the way home", "From that day on {s} was never afraid again", "That night {s} slept better than ever",
    "{n} smiled and kept the memory for all {p} life", "{s} told the story every winter", "Everybody in the valley spoke of it for years",
    "{n} learned that patience is stronger than force", "{s} knew now that small steps lead far", "When {s} came home, there was warm soup on the table",
    "Since then {n} has helped everyone who is in trouble", "And {n} laughed until the stars came out",
)  # fmt: skip
FRIEND_ENDINGS = (
    "{n} and {f} stayed friends for the rest of their lives", "{n} thanked {f} and shared {p} supper", "They laughed together until the sun went down",
    "From then on {n} and {f} met every Sunday", "{n} learned that a good friend is worth more than gold", "They celebrated with cake and warm milk",
)  # fmt: skip
AFTERWARDS = (
    "The next day {n} woke up early and wanted to see it all again", "A week later {n} told the whole village about it", "After that {n} began to plan another adventure",
    "When winter came, {n} sat by the fire and thought of that day", "{n} went home and slept until noon",
)  # fmt: skip
LATER = (
    "A young traveller asked if the story was true, and {n} only smiled", "{p} grandmother listened and was very proud", "Soon other people came and wanted to try it too",
    "{s} found a small gift in front of {p} door", "The neighbours brought bread and sang a song for {o}", "{s} put a little {m} stone on the shelf to remember it",
)  # fmt: skip
LAST = (
    "And that is the true end of the story", "Nobody ever forgot it", "After that it was quiet for a long time", "And if you go there, you can still hear people talk about it",
    "It was the best year of {p} life", "Then {s} was ready for something new",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Story:
    hero: str
    subject: str
    name: str
    pronoun: str
    wish: str
    text: str
    sequel: str


def draw_subject(rng: Random) -> tuple[str, str]:
    return rng.choice(HEROES), rng.choice(tuple(PLOTS))


def draw_story(rng: Random, hero: str, subject: str) -> Story:
    pronoun = GENDER.get(hero) or lean(rng, ("she", "he"), hero)
    name = lean(rng, SHE_NAMES if pronoun == "she" else HE_NAMES, hero)
    friend = lean(rng, [n for n in SHE_NAMES + HE_NAMES if n != name], subject)
    kind = lean(rng, [k for k in (*ANIMALS, *TRADES) if k != hero], subject)
    words = _words(name, pronoun) | {
        "f": friend,
        "k": kind,
        "ak": indefinite(kind),
        "a": indefinite(f"{lean(rng, MOODS, hero)} {hero}"),
        "m": rng.choice(("red", "white", "blue")),
    }
    wish, trouble, way_out = rng.choice(tuple(zip(*PLOTS[subject], strict=True)))
    clauses = (
        *_beginning(rng, hero, subject, wish, trouble),
        *_middle(rng, hero, subject, way_out),
    )
    return Story(
        hero=hero,
        subject=subject,
        name=name,
        pronoun=pronoun,
        wish=wish.format(**words),
        text=_tell(clauses, words),
        sequel=_tell([lean(rng, part, hero) for part in (AFTERWARDS, LATER, LAST)], words),
    )


def lean(rng: Random, options: Sequence[str], key: str) -> str:
    """A free choice, or the one that belongs to `key`. So even the likeliest stories differ."""
    if rng.random() < LEANING:
        return options[crc32(key.encode()) % len(options)]
    return rng.choice(options)


def _words(name: str, pronoun: str) -> dict[str, str]:
    obj, possessive = ("her", "her") if pronoun == "she" else ("him", "his")
    return {"n": name, "s": pronoun, "o": obj, "p": possessive}


def _beginning(rng: Random, hero: str, subject: str, wish: str, trouble: str) -> tuple[str, ...]:
    when, but = lean(rng, WHEN, subject), lean(rng, BUT, subject)
    return lean(rng, OPENINGS, hero), f"{when} {wish}", f"{but} {trouble}"


def _middle(rng: Random, hero: str, subject: str, way_out: str) -> tuple[str, ...]:
    """The turn of the story; a friend enters exactly when the way out needs one."""
    feeling = lean(rng, FEELING, hero) if rng.random() < 0.4 else ""
    solved = f"{lean(rng, SO, hero)} {way_out}"
    if "{f}" not in way_out:
        return feeling, solved, lean(rng, ENDINGS, hero)
    meeting = lean(rng, MEETING, subject)
    speech = lean(rng, SPEECH, hero) if rng.random() < 0.5 else ""
    return feeling, meeting, speech, solved, lean(rng, FRIEND_ENDINGS + ENDINGS, hero + subject)


def _tell(clauses: Sequence[str], words: dict[str, str]) -> str:
    return prose(*(clause.format(**words) for clause in clauses)).replace('."', '"')
