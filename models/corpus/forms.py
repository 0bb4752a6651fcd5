"""Facts in a text and the same facts as a form: people, events, orders, opinions and places."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from models.corpus.facts import (
    draw_city,
    draw_date,
    draw_email,
    draw_iso_date,
    draw_person,
    draw_phone,
    draw_price,
    draw_time,
    draw_word,
    listed,
)
from models.corpus.json_text import schema_of, type_of
from models.corpus.tables.facts import (
    BLAME,
    CITIES,
    COLORS,
    EVENTS,
    GOODS,
    HOBBIES,
    JOBS,
    PRAISE,
    SHRUGS,
    VENUES,
    WARES,
)

Draw = Callable[[Random], Any]


@dataclass(frozen=True, slots=True)
class Form:
    """`text` holds the facts of `value`; `name` and `schema` are the form's."""

    name: str
    text: str
    value: dict[str, Any]
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Attribute:
    """What is true of a person, the keys a form may have for it, and clauses that say it."""

    keys: tuple[str, ...]
    draw: Draw
    clauses: tuple[str, ...]
    adjectival: bool = False


NAME_KEYS = ("name", "name", "name", "full_name", "person", "user", "who")
ATTRIBUTES = (
    Attribute(("age", "age", "years", "age_years"), lambda rng: rng.randint(1, 99), ("is {v} years old", "is {v}", "turned {v} today", "just had birthday number {v}")),
    Attribute(("city", "city", "location", "town", "home", "place"), draw_city, ("lives in {v}", "comes from {v}", "moved to {v}", "works in {v}")),
    Attribute(("job", "occupation", "profession", "role"), lambda rng: rng.choice(JOBS), ("is a {v}", "works as a {v}", "has a job as {v}")),
    Attribute(("email", "email", "mail", "contact"), draw_email, ("can be reached at {v}", "has the address {v}", "writes from {v}")),
    Attribute(("phone", "phone_number", "number"), draw_phone, ("has the phone number {v}", "answers at {v}")),
    Attribute(("hobbies", "interests", "likes"), lambda rng: rng.sample(HOBBIES, rng.randint(1, 3)), ("likes {v}", "enjoys {v}", "loves {v}")),
    Attribute(("birth_date", "birthday", "born", "date"), draw_date, ("was born on {v}", "has the birthday {v}")),
    Attribute(("height", "height_m"), lambda rng: round(rng.uniform(1.2, 2.1), 2), ("is {v} m tall", "is {v} meters tall")),
    Attribute(("favorite_color", "color"), lambda rng: rng.choice(COLORS), ("likes the color {v}", "wears {v}")),
    Attribute(("is_student", "student", "married", "is_active", "has_pet", "member"), lambda rng: rng.random() < 0.5, ()),
    Attribute(("company", "employer", "team"), lambda rng: draw_word(rng).title(), ("works for {v}", "works at {v}", "is with {v}")),
    Attribute(("children", "pets", "score", "points", "id"), lambda rng: rng.randint(0, 9), ()),
)  # fmt: skip
TRUTHS = {
    "is_student": ("is a student", "is not a student"), "student": ("studies", "does not study"), "married": ("is married", "is not married"),
    "is_active": ("is active", "is not active"), "has_pet": ("has a pet", "has no pet"), "member": ("is a member", "is not a member"),
}  # fmt: skip
PERSON_TITLES = (
    "User",
    "Person",
    "UserInfo",
    "UserDetail",
    "Profile",
    "Customer",
    "Contact",
    "PersonInfo",
    "ExtractUser",
)


def draw_form(rng: Random) -> Form:
    kinds = (_person, _people, _event, _order, _opinion, _venue, _nested)
    kind: Callable[[Random], Form] = rng.choices(kinds, weights=(10, 2, 3, 3, 3, 2, 2))[0]
    return kind(rng)


def _person(rng: Random) -> Form:
    name, facts, clauses = draw_person(rng), dict[str, Any](), list[str]()
    for attribute in rng.sample(ATTRIBUTES, rng.choice((1, 1, 1, 2, 2, 3, 4))):
        key, value, clause = _attributed(rng, attribute)
        facts[key] = value
        clauses.append(clause)
    if len(facts) == 1 and rng.random() < 0.4:
        age = rng.randint(1, 99)
        facts, clauses = {"age": age}, [f"is {age} years old"]
    fields = {rng.choice(NAME_KEYS): name, **facts}
    if rng.random() < 0.15:
        fields = dict(rng.sample(list(fields.items()), len(fields)))
    return _form(rng.choice(PERSON_TITLES), _said_of(rng, name, clauses), fields)


def _attributed(rng: Random, attribute: Attribute) -> tuple[str, Any, str]:
    key, value = rng.choice(attribute.keys), attribute.draw(rng)
    if key in TRUTHS:
        return key, value, TRUTHS[key][0 if value else 1]
    if not attribute.clauses:
        return key, value, f"has {key} {value}" if key in ("score", "id") else f"has {value} {key}"
    text = listed(value) if isinstance(value, list) else str(value)
    return key, value, rng.choice(attribute.clauses).format(v=text)


def _said_of(rng: Random, name: str, clauses: list[str]) -> str:
    if rng.random() < 0.5:
        return f"{name} {listed(clauses)}."
    first, *others = clauses
    pronoun = rng.choice(("He", "She"))
    return " ".join([f"{name} {first}.", *(f"{pronoun} {clause}." for clause in others)])


def _people(rng: Random) -> Form:
    people = [(draw_person(rng), rng.randint(1, 99)) for _ in range(rng.choice((2, 2, 3)))]
    text = f"{listed([f'{name} is {age}' for name, age in people])}."
    key = rng.choice(("users", "people", "items", "persons"))
    return _form("People", text, {key: [{"name": name, "age": age} for name, age in people]})


def _event(rng: Random) -> Form:
    who = [draw_person(rng) for _ in range(rng.choice((1, 2, 2, 3)))]
    what, when, where = rng.choice(EVENTS), draw_date(rng), draw_city(rng)
    has_place = rng.random() < 0.4
    verb = "is going" if len(who) == 1 else "are going"
    text = f"{listed(who)} {verb} to {what} on {when}{f' in {where}' if has_place else ''}."
    name = what.split(" ", 1)[1] if what.startswith(("a ", "the ")) else what
    value: dict[str, Any] = {
        rng.choice(("name", "title", "event", "what")): name.title() if rng.random() < 0.5 else name
    }
    value |= {rng.choice(("date", "day", "when")): when}
    if has_place:
        value |= {rng.choice(("location", "city", "place")): where}
    if rng.random() < 0.3:
        at = draw_time(rng)
        text, value = f"{text[:-1]} at {at}.", value | {"time": at}
    return _form(
        "CalendarEvent", text, value | {rng.choice(("participants", "attendees", "people")): who}
    )


def _order(rng: Random) -> Form:
    who, goods = draw_person(rng), rng.sample(GOODS, rng.choice((1, 2, 3)))
    total, urgent = draw_price(rng), rng.random() < 0.5
    text = f"{who} ordered {listed(goods)} for {total} dollars."
    value: dict[str, Any] = {
        rng.choice(("customer", "buyer", "name")): who,
        rng.choice(("items", "products", "goods")): goods,
    }
    if rng.random() < 0.7:
        value |= {rng.choice(("total", "price", "amount", "cost")): total}
    if rng.random() < 0.4:
        text += " It is urgent." if urgent else " It is not urgent."
        value |= {rng.choice(("urgent", "is_urgent")): urgent}
    if rng.random() < 0.3:
        date = draw_iso_date(rng)
        text, value = f"{text} Date: {date}.", value | {"date": date}
    return _form(rng.choice(("Order", "Invoice", "Purchase")), text, value)


def _opinion(rng: Random) -> Form:
    feeling = rng.choice(("positive", "negative", "neutral"))
    ware = rng.choice(WARES)
    table = {"positive": PRAISE, "negative": BLAME, "neutral": SHRUGS}[feeling]
    text = rng.choice(table).format(x=ware)
    rating = {"positive": rng.choice((4, 5)), "negative": rng.choice((1, 2)), "neutral": 3}[feeling]
    key = rng.choice(("sentiment", "label", "feeling", "category", "tone"))
    value: dict[str, Any] = {key: feeling}
    if rng.random() < 0.4:
        value = {rng.choice(("product", "subject", "item")): ware} | value
    if rng.random() < 0.4:
        value |= {rng.choice(("rating", "score", "stars")): rating}
    form = _form(rng.choice(("Review", "Sentiment", "Classification")), text, value)
    form.schema["properties"][key]["enum"] = ["positive", "negative", "neutral"]
    return form


def _venue(rng: Random) -> Form:
    if rng.random() < 0.5:
        what, (city, country) = rng.choice(tuple(VENUES.items()))
        verb = "were" if "games" in what or "olympics" in what else "is"
        text = f"Where {verb} {what}{' held' if verb == 'were' else ''}?"
    else:
        city, country = rng.choice(tuple(CITIES.items()))
        text = rng.choice(
            (
                f"I live in {city}.",
                f"{city} in {country}",
                f"Tell me about {city}.",
                f"{city} is the capital of {country}.",
            )
        )
    return _form(
        rng.choice(("CityLocation", "Location", "Place")), text, {"city": city, "country": country}
    )


def _nested(rng: Random) -> Form:
    name, age, city = draw_person(rng), rng.randint(1, 99), draw_city(rng)
    street = f"{rng.randint(1, 99)} {draw_word(rng).title()} Street"
    text = f"{name} is {age} years old and lives at {street} in {city}."
    inner = {"street": street, "city": city}
    if rng.random() < 0.5:
        return _form("Person", text, {"name": name, "age": age, "address": inner})
    return _form(
        "Record",
        text,
        {rng.choice(("user", "person")): {"name": name, "age": age}, "address": inner},
    )


def _form(name: str, text: str, value: dict[str, Any]) -> Form:
    return Form(name, text, value, schema_of({key: type_of(inner) for key, inner in value.items()}))
