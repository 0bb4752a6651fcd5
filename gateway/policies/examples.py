"""The tests that stand in a document: a call, and the rule that it must fall under."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from gateway.policies.source import DocumentText, Path, as_list, as_mapping, nearest
from gateway.policies.words import TestWords
from routing.policy.attributes import BY_NAME, AttributeKind, Attributes, completed
from routing.policy.conditions import Mistake
from routing.policy.rules import RoutingPolicy

_TYPES: Final[Mapping[AttributeKind, tuple[type, ...]]] = {
    AttributeKind.STRING: (str,),
    AttributeKind.INT: (int,),
    AttributeKind.DOUBLE: (int, float),
    AttributeKind.BOOL: (bool,),
    AttributeKind.TEXTS: (dict,),
}


class ExampleResult(NamedTuple):
    """A test of a document. `rule` is the one that the call falls under."""

    name: str
    expected: str
    rule: str

    @property
    def passed(self) -> bool:
        return self.rule == self.expected


def wrong_examples(source: DocumentText, rules: Collection[str]) -> Iterator[Mistake]:
    """Inputs that no call has, and rules that are not there. Reads plain values: the shape of
    others may be wrong."""
    for number, test in enumerate(as_list(as_mapping(source.value).get("tests"))):
        path: Path = ("tests", number)
        inputs = as_mapping(as_mapping(test).get("input"))
        yield from _wrong_inputs(inputs, (*path, "input"), source)
        rule = as_mapping(as_mapping(test).get("expect")).get("rule")
        if isinstance(rule, str) and rule not in rules:
            message = f"unknown rule '{rule}'{nearest(rule, rules)}"
            yield source.at((*path, "expect", "rule"), message)


def results(tests: Sequence[TestWords], policy: RoutingPolicy) -> tuple[ExampleResult, ...]:
    """What comes of tests in which nothing is wrong."""
    return tuple(
        ExampleResult(test.name, test.expect.rule, policy.match(_attributes(test.input)).rule)
        for test in tests
    )


def failures(outcomes: Sequence[ExampleResult], source: DocumentText) -> Iterator[Mistake]:
    for number, result in enumerate(outcomes):
        if not result.passed:
            message = (
                f"test '{result.name}': rule '{result.expected}' is expected,"
                f" '{result.rule}' matches"
            )
            yield source.at(("tests", number, "expect", "rule"), message)


def _wrong_inputs(inputs: Mapping[str, Any], path: Path, source: DocumentText) -> Iterator[Mistake]:
    for name, value in inputs.items():
        attribute = BY_NAME.get(name)
        if attribute is None:
            message = f"unknown attribute '{name}'{nearest(name, BY_NAME)}"
            yield source.at((*path, name), message, key=True)
            continue
        texts = isinstance(value, dict) and any(not isinstance(v, str) for v in value.values())
        mixed = isinstance(value, bool) and attribute.kind is not AttributeKind.BOOL
        fits = isinstance(value, _TYPES[attribute.kind]) and not (texts or mixed)
        if not fits:
            yield source.at((*path, name), f"'{name}' is of type {attribute.kind.value}")
        elif not attribute.has(value):
            yield source.at((*path, name), f"no call has this '{name}': {attribute.meaning}")


def _attributes(values: Mapping[str, Any]) -> Attributes:
    doubles = {n: float(v) for n, v in values.items() if BY_NAME[n].kind is AttributeKind.DOUBLE}
    return completed({**values, **doubles})
