"""Talks whose answers are JSON: facts taken from a text, and plain answers put into fields."""

from random import Random
from typing import Any

from models.corpus.answers import Exchange
from models.corpus.facts import listed
from models.corpus.forms import draw_form
from models.corpus.json_text import dumped, schema_of, type_of, written
from models.corpus.tables.smalltalk import TALK
from models.corpus.turns import Talk, Turn

LEADS = (
    "", "", "", "", "Extract: ", "Extract the facts. ", "Extract the user from: ", "Extract {n} from: ", "Extract the information: ", "Extract the following: ",
    "Read this text: ", "What does it say? ", "Fill in the form. ", "Text: ", "Classify this: ", "Get the details from this: ", "Parse this: ",
)  # fmt: skip
FORM_SYSTEMS = (
    "Extract the event information.", "Extract the information.", "Extract the user.", "You extract facts from a text.", "You are a helpful assistant.",
    "Fill in the form with what the user says.", "Be precise.", "Extract the facts.", "Classify the text.",
)  # fmt: skip
JSON_SYSTEMS = (
    "You are a helpful assistant designed to output JSON.", "Answer in JSON.", "Reply with a JSON object.", "Always answer with JSON.",
    "Respond only with valid JSON.",
)  # fmt: skip
SCHEMA_SYSTEMS = (
    "Answer with JSON that follows this schema:\n{s}", "Your task is to understand the content and provide the parsed objects in json that match the following json_schema:\n\n{s}",
    "Here is the output schema:\n{s}\nReturn only JSON.", "Schema: {s}", "Respond in JSON format with this schema: {s}",
)  # fmt: skip
KEY_ASKS = (
    "{t} Give me {k} as JSON.", "Extract {k} as JSON: {t}", "Return {k} in a JSON object. {t}", "{t} Answer in JSON with the keys {k}.",
    "Write JSON with {k} for this text: {t}",
)  # fmt: skip
ANSWER_KEYS = (
    "answer",
    "text",
    "response",
    "content",
    "message",
    "result",
    "output",
    "final_answer",
    "reply",
    "summary",
    "description",
)
TITLE_KEYS = ("title", "question", "topic", "name", "subject")


def draw_form_talk(rng: Random, exchange: Exchange) -> Talk:
    """A talk with a form. `exchange` is an ordinary one, whose answer may go into fields."""
    kind = rng.random()
    if kind < 0.62:
        form = draw_form(rng)
        name, text, value, schema = form.name, form.text, form.value, form.schema
    elif kind < 0.70:
        name, text, value = _joke(rng)
        schema = schema_of({key: type_of(inner) for key, inner in value.items()})
    else:
        name, text, value = _answered(rng, exchange)
        schema = schema_of({key: type_of(inner) for key, inner in value.items()})
    return _asked(rng, name, text, value, schema)


def _asked(
    rng: Random, name: str, text: str, value: dict[str, Any], schema: dict[str, Any]
) -> Talk:
    chance = rng.random()
    lead = rng.choice(LEADS).format(n=name) if value and len(text) < 300 else ""
    if chance < 0.5:
        system = rng.choice(FORM_SYSTEMS) if rng.random() < 0.35 else ""
        return _talk(system, lead + text, value, keys_given=True)
    if chance < 0.65:
        return _talk(rng.choice(JSON_SYSTEMS), lead + text, value, keys_given=True)
    if chance < 0.82:
        schema_text = dumped(schema | {"title": name})
        return _talk(rng.choice(SCHEMA_SYSTEMS).format(s=schema_text), lead + text, value)
    keys = listed(list(value))
    return _talk("", rng.choice(KEY_ASKS).format(t=text, k=keys), value)


def _talk(system: str, text: str, value: dict[str, Any], *, keys_given: bool = False) -> Talk:
    content, given = written(value, keys_given=keys_given)
    turns = (Turn("user", text), Turn("assistant", content, given))
    return Talk((Turn("system", system), *turns) if system else turns)


def _joke(rng: Random) -> tuple[str, str, dict[str, Any]]:
    asks, setups, lines, _ = TALK["joke"]
    about = rng.choice(("", " about cats", " about bears", " about a snail", " about an owl"))
    ask = rng.choice(asks) if rng.random() < 0.5 else f"Tell me a joke{about}"
    value: dict[str, Any] = {"setup": rng.choice(setups), "punchline": rng.choice(lines)}
    if rng.random() < 0.4:
        value["rating"] = rng.randint(1, 10)
    return "Joke", ask, value


def _answered(rng: Random, exchange: Exchange) -> tuple[str, str, dict[str, Any]]:
    sentences = exchange.answer.split(". ")
    short = sentences[0].rstrip(".") + "."
    key, answer = rng.choice(ANSWER_KEYS), exchange.answer if len(exchange.answer) < 400 else short
    value: dict[str, Any] = {key: answer}
    kind = rng.randrange(6)
    if kind == 0:
        words = exchange.question.rstrip(".?!").split()
        value = {rng.choice(TITLE_KEYS): " ".join(words[-4:])} | value
    if kind == 1:
        value |= {"confidence": rng.choice((0.5, 0.7, 0.8, 0.9, 0.95))}
    if kind == 2:
        value = {
            rng.choice(("reasoning", "explanation", "thoughts")): short,
            key: sentences[-1].rstrip(".") + ".",
        }
    if kind == 3:
        parts = [part.rstrip(".") + "." for part in sentences][:4]
        value = {rng.choice(("steps", "sentences", "points", "items", "facts")): parts}
        if rng.random() < 0.5:
            value |= {rng.choice(ANSWER_KEYS): short}
    return "Answer", exchange.question, value
