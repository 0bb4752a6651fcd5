"""What is wrong with the document of a policy, as a whole and each mistake at its place, and the
policy that it makes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from gateway.policies import words
from gateway.policies.examples import ExampleResult, failures, results, wrong_examples
from gateway.policies.names import NOT_KNOWN, CatalogueNames, routes, wrong_names
from gateway.policies.source import (
    DocumentText,
    InvalidDocument,
    Path,
    as_list,
    as_mapping,
    nearest,
    read,
)
from gateway.policies.words import CLAUSES_MAX, RULES_MAX, PolicyDocument
from routing.policy.action import DEFAULT_RULE
from routing.policy.conditions import InvalidClause, Mistake, clause
from routing.policy.reach import unreached
from routing.policy.rules import RoutingPolicy

MISTAKES_MAX: Final = 500
"""How many are named of a document that has more."""
MESSAGE_CHARACTERS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Examined:
    """`policy` is None where the document makes none. A test that fails is a mistake as well, and
    leaves it. `warnings` are of what is right and does nothing."""

    mistakes: tuple[Mistake, ...]
    policy: RoutingPolicy | None = None
    tests: tuple[ExampleResult, ...] = ()
    warnings: tuple[Mistake, ...] = ()


def compiled(text: str, *, revision: int, known: CatalogueNames = NOT_KNOWN) -> RoutingPolicy:
    """The policy of a document. Raises InvalidDocument with every mistake."""
    examined = examine(text, revision=revision, known=known)
    if examined.mistakes or examined.policy is None:
        raise InvalidDocument(examined.mistakes)
    return examined.policy


def examine(text: str, *, revision: int = 0, known: CatalogueNames = NOT_KNOWN) -> Examined:
    """Whatever the text is, what can be said of it."""
    try:
        source = read(text)
    except InvalidDocument as invalid:
        return Examined(invalid.mistakes)
    warnings = _in_order(_without_effect(source))
    return replace(_examined(source, revision, known), warnings=warnings)


def _examined(source: DocumentText, revision: int, known: CatalogueNames) -> Examined:
    mistakes = {*_wrong_clauses(source), *_unreachable(source), *_taken_ids(source)}
    mistakes |= {*islice(wrong_names(source, known), MISTAKES_MAX)}
    mistakes |= {*islice(wrong_examples(source, _ids(source)), MISTAKES_MAX)}
    try:
        document = PolicyDocument.model_validate(source.value)
    except ValidationError as wrong:
        errors = wrong.errors(include_url=False)[:MISTAKES_MAX]
        return Examined(_in_order(mistakes | {_mistake(source, error) for error in errors}))
    if mistakes:
        return Examined(_in_order(mistakes))
    policy = _policy(document, revision)
    tests = results(document.tests, policy)
    return Examined(_in_order(failures(tests, source)), policy, tests)


def _in_order(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    first = sorted(mistakes)[:MISTAKES_MAX]
    return tuple([each._replace(message=each.message[:MESSAGE_CHARACTERS_MAX]) for each in first])


def schema() -> dict[str, Any]:
    """The document's JSON Schema."""
    return PolicyDocument.model_json_schema()


def _policy(document: PolicyDocument, revision: int) -> RoutingPolicy:
    rules = [rule.rule(rule.id, tuple(map(clause, rule.when))) for rule in document.rules]
    return RoutingPolicy(revision, tuple(rules), document.default.rule(DEFAULT_RULE, ()))


# ---- Mistakes of shape


def _mistake(source: DocumentText, error: Mapping[str, Any]) -> Mistake:
    path: Path = error["loc"]
    if error["type"] == "extra_forbidden":
        near = nearest(str(path[-1]), _siblings(path))
        return source.at(path, f"unknown key '{path[-1]}'{near}", key=True)
    if error["type"] == "missing":
        return source.at(path, f"'{path[-1]}' is missing")
    return source.at(path, _KINDS.get(error["type"]) or _words(error["msg"]))


_KINDS: Final[Mapping[str, str]] = {
    "list_type": "this is to be a list: [...]",
    "dict_type": "this is to be a mapping: {...}",
    "model_type": "this is to be a mapping: {...}",
    "float_type": "this is to be a number",
    "int_type": "this is to be a whole number",
    "string_type": "this is to be a text",
    "bool_type": "this is to be true or false",
}


def _words(message: str) -> str:
    return message.removeprefix("Value error, ").replace("Input should be", "this is to be")


_PLACES: Final[Mapping[str, type[BaseModel]]] = {
    "route": words.RouteWords,
    "default": words.DefaultWords,
    "canary": words.CanaryWords,
    "shadow": words.ShadowWords,
    "rules": words.RuleWords,
    "tests": words.TestWords,
    "expect": words.ExpectWords,
    "max_price": words.MaxPriceWords,
    "preferred_max_latency": words.LatencyWords,
    "cold_start": words.ColdStartWords,
    "hedge": words.HedgeWords,
    "retries": words.RetryWords,
    "timeouts": words.TimeoutWords,
    "fallbacks": words.FallbackWords,
}


def _siblings(path: Path) -> list[str]:
    """The keys that may stand where this one does."""
    names = [part for part in path[:-1] if isinstance(part, str)]
    return list(_PLACES.get(names[-1] if names else "", PolicyDocument).model_fields)


def _without_effect(source: DocumentText) -> Iterator[Mistake]:
    for path, route in routes(source.value):
        if route.get("fallbacks") and route.get("allow_fallbacks") is False:
            message = "'fallbacks' has no effect beside 'allow_fallbacks: false'"
            yield source.at((*path, "fallbacks"), message, key=True)


# ---- Mistakes of rules, which are read as plain values: the shape of others may be wrong


def _rules(source: DocumentText) -> Iterator[tuple[int, Mapping[str, Any]]]:
    rules = as_list(as_mapping(source.value).get("rules"))
    for number, rule in enumerate(rules[:RULES_MAX]):
        if isinstance(rule, dict):
            yield number, rule


def _clauses(rule: Mapping[str, Any]) -> list[str] | None:
    """None where it has none to read, or more than it may have."""
    when = rule.get("when")
    if not isinstance(when, list) or len(when) > CLAUSES_MAX:
        return None
    return when if all(isinstance(text, str) for text in when) else None


def _wrong_clauses(source: DocumentText) -> Iterator[Mistake]:
    for at, rule in _rules(source):
        for number, text in enumerate(as_list(rule.get("when"))[:CLAUSES_MAX]):
            if isinstance(text, str):
                try:
                    clause(text)
                except InvalidClause as invalid:
                    path = ("rules", at, "when", number)
                    yield from [source.inside(path, each) for each in invalid.mistakes]


def _unreachable(source: DocumentText) -> Iterator[Mistake]:
    rules = [
        (number, rule.get("id"), clauses)
        for number, rule in _rules(source)
        if (clauses := _clauses(rule)) is not None
    ]
    for each in unreached([clauses for _, _, clauses in rules]):
        number, name, _ = rules[each.rule]
        why = "no call meets all of its clauses"
        if each.hidden_by:
            *names, last = [f"'{rules[place][1]}'" for place in each.hidden_by]
            why = f"{last} takes its calls first"
            if names:
                why = f"{', '.join(names)} and {last} together take its calls first"
        yield source.at(("rules", number), f"rule '{name}' is never reached: {why}")


def _ids(source: DocumentText) -> list[str]:
    """Of the rules, and of the default first."""
    ids = [rule.get("id") for _, rule in _rules(source)]
    return [DEFAULT_RULE, *(name for name in ids if isinstance(name, str))]


def _taken_ids(source: DocumentText) -> Iterator[Mistake]:
    seen: set[object] = set()
    for number, rule in _rules(source):
        name = rule.get("id")
        if name == DEFAULT_RULE:
            message = f"the id '{name}' is taken: it is what takes all other calls"
            yield source.at(("rules", number, "id"), message)
        elif isinstance(name, str) and name in seen:
            yield source.at(("rules", number, "id"), f"the id '{name}' is taken by a rule before")
        if isinstance(name, str):
            seen.add(name)
