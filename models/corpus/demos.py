"""Small questions that people try first: capitals, sums, echoes, translations, one-sentence stories and places."""

from random import Random

from models.corpus.answers import Exchange
from models.corpus.facts import draw_word
from models.corpus.phrase import indefinite, sentence
from models.corpus.stories import draw_subject
from models.corpus.tables.facts import CITIES, LANGUAGES, PHRASES, VENUES
from models.corpus.tables.names import HE_NAMES, SHE_NAMES
from models.corpus.tables.plots import PLOTS

CAPITAL_ASKS = (
    "What is the capital of {c}?", "Which city is the capital of {c}?", "Tell me the capital of {c}.", "capital of {c}?",
    "What's the capital of {c}?", "Name the capital of {c}.",
)  # fmt: skip
COUNTRY_ASKS = ("In which country is {c}?", "Where is {c}?", "Which country is {c} in?")
SUM_ASKS = (
    "What is {a}+{b}?",
    "What is {a} + {b}?",
    "How much is {a} plus {b}?",
    "{a} + {b} = ?",
    "What is {a} plus {b}?",
    "Add {a} and {b}.",
)
SAY_ASKS = (
    "Say {x}",
    "Say {x}.",
    "Say: {x}",
    "Please say {x}.",
    "Repeat after me: {x}",
    "Repeat: {x}",
    'Say "{x}"',
    "Say '{x}'",
    "Reply with {x}.",
)
SAID = (
    "this is good", "hello world", "good morning", "I am here", "it works", "tests are fun", "this is a message", "yes", "no", "ok", "hello there",
    "this works", "we are ready", "the sky is clear", "pong", "one two three", "this is one", "everything is fine",
)  # fmt: skip
TRANSLATE_ASKS = (
    "Translate '{x}' to {l}.", 'Translate "{x}" into {l}.', "How do you say '{x}' in {l}?", "Translate to {l}: {x}", "Translate {x} to {l}.",
    "Translate this sentence from English to {l}. {x}.", "Say {x} in {l}.", "What is '{x}' in {l}?",
)  # fmt: skip
TRANSLATOR_SYSTEMS = (
    "You are a helpful assistant that translates English to {l}. Translate the user sentence.", "You translate English to {l}.",
    "Translate the following from English into {l}", "Translate what the user says to {l}.",
)  # fmt: skip
LINE_ASKS = (
    "Write a one-sentence story about {h}.", "Tell me a bedtime story of one sentence about {h}.", "Write a one-sentence bedtime story about {h} and {t}.",
    "Write one sentence about {h}.", "Tell a story about {h} in one sentence.", "Write a three sentence bedtime story about {h}.",
    "Write a haiku about {h}.", "Write a short poem about {t}.", "Write a haiku about {t}.",
)  # fmt: skip
BEASTS = ("unicorn", "dragon", "fairy", "mermaid", "kitten", "puppy")


def ask_capital(rng: Random) -> Exchange:
    city, country = rng.choice(tuple(CITIES.items()))
    if rng.random() < 0.25:
        return Exchange(
            rng.choice(COUNTRY_ASKS).format(c=city), f"{city} is the capital of {country}."
        )
    answer = rng.choice(
        (f"The capital of {country} is {city}.", f"{city} is the capital of {country}.")
    )
    return Exchange(rng.choice(CAPITAL_ASKS).format(c=country), answer)


def ask_venue(rng: Random) -> Exchange:
    what, (city, country) = rng.choice(tuple(VENUES.items()))
    if "games" in what or "olympics" in what:
        return Exchange(f"Where were {what} held?", f"They were held in {city}, {country}.")
    return Exchange(f"Where is {what}?", f"You can see {what} in {city}, {country}.")


def ask_sum(rng: Random) -> Exchange:
    a, b = rng.randint(0, 12), rng.randint(0, 12)
    return Exchange(
        rng.choice(SUM_ASKS).format(a=a, b=b),
        rng.choice((f"{a} plus {b} is {a + b}.", f"The sum is {a + b}.")),
    )


def ask_echo(rng: Random) -> Exchange:
    phrase = (
        rng.choice(SAID)
        if rng.random() < 0.6
        else " ".join(draw_word(rng) for _ in range(rng.randint(1, 3)))
    )
    return Exchange(rng.choice(SAY_ASKS).format(x=phrase), sentence(phrase))


def ask_translation(rng: Random) -> Exchange:
    phrase, translated, language = _translation(rng)
    return Exchange(rng.choice(TRANSLATE_ASKS).format(x=phrase, l=language), translated)


def draw_translator(rng: Random) -> tuple[str, Exchange]:
    """A system message that says the task, and the sentence alone."""
    phrase, translated, language = _translation(rng)
    phrase = phrase if rng.random() < 0.5 or phrase[-1] in "?." else f"{phrase}."
    return rng.choice(TRANSLATOR_SYSTEMS).format(l=language), Exchange(phrase, translated)


def ask_line(rng: Random) -> Exchange:
    hero, subject = draw_subject(rng)
    hero = rng.choice(BEASTS) if rng.random() < 0.5 else hero
    wishes, _, ways = PLOTS[subject]
    name = rng.choice(SHE_NAMES)
    number = rng.randrange(2)
    words = {"n": name, "s": "she", "o": "her", "p": "her", "f": rng.choice(HE_NAMES)}
    wish, way = wishes[number].format(**words), ways[number].format(**words)
    mentioned = indefinite(subject) if subject not in ("snow", "bread") else subject
    ask = rng.choice(LINE_ASKS).format(h=indefinite(hero), t=mentioned)
    start = rng.choice(("Once upon a time", "One quiet night", "Long ago", "Under the silver moon"))
    link = rng.choice((", and in the end ", ", and at last ", ", and before she fell asleep "))
    return Exchange(ask, sentence(f"{start} {indefinite(hero)} named {name} {wish}{link}{way}"))


def _translation(rng: Random) -> tuple[str, str, str]:
    phrase, versions = rng.choice(tuple(PHRASES.items()))
    number = rng.choice((0, 0, 1, 2, 3))
    return phrase, versions[number], LANGUAGES[number]
