"""Conditions: what holds without the engine is what the engine says; a mistake has a place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.policy.attributes import ATTRIBUTES, Attributes, completed
from routing.policy.conditions import (
    CLAUSE_CHARACTERS_MAX,
    MEMORY_ENTRIES_MAX,
    InvalidClause,
    Mistake,
    clause,
    engine_clause,
)
from tests.routing.policy.strategies import any_attributes, any_clauses, simple_clauses


def mistakes(text: str) -> tuple[Mistake, ...]:
    with pytest.raises(InvalidClause) as raised:
        clause(text)
    return raised.value.mistakes


@given(simple_clauses(), any_attributes())
def test_a_comparison_without_the_engine_says_what_the_engine_says(
    text: str, attributes: Attributes
) -> None:
    assert clause(text).holds(attributes) == engine_clause(text).holds(attributes)


@given(st.lists(simple_clauses(), min_size=1, max_size=4), st.data(), any_attributes())
def test_comparisons_that_are_joined_say_what_the_engine_says(
    parts: list[str], data: st.DataObject, attributes: Attributes
) -> None:
    text = parts[0]
    for part in parts[1:]:
        text += data.draw(st.sampled_from([" && ", " || ", "&&", "||"])) + part
    assert clause(text).holds(attributes) == engine_clause(text).holds(attributes)


def test_a_text_that_has_an_operator_in_it_is_one_text() -> None:
    for text in ('req.model == "a && b"', "req.model != 'a || b'", 'req.model in ["a && b"]'):
        attributes = completed({"req.model": "a && b"})
        assert clause(text).holds(attributes) == engine_clause(text).holds(attributes)


@given(any_clauses(), st.lists(any_attributes(), min_size=1, max_size=3))
def test_a_checked_clause_is_true_or_false_for_every_call_and_remembers_well(
    text: str, calls: list[Attributes]
) -> None:
    remembered, asked = clause(text), engine_clause(text)
    for attributes in [*calls, *calls]:
        assert remembered.holds(attributes) is asked.holds(attributes)


@given(any_clauses(), any_clauses(), any_attributes())
def test_a_clause_that_cannot_be_evaluated_does_not_hold(
    text: str, other: str, attributes: Attributes
) -> None:
    failing = "1 / (req.max_tokens - req.max_tokens) == 1"
    assert not clause(failing).holds(attributes)
    assert not clause(f"!({failing})").holds(attributes)
    assert clause(f"({failing}) || ({text})").holds(attributes) == clause(text).holds(attributes)


@given(st.text(max_size=60))
def test_any_text_is_a_condition_or_has_mistakes_at_places_inside_of_it(text: str) -> None:
    try:
        clause(text)
    except InvalidClause as invalid:
        lines = text.split("\n")
        assert invalid.mistakes
        for line, column, message in invalid.mistakes:
            assert 1 <= line <= len(lines)
            assert 1 <= column <= len(lines[line - 1]) + 1
            assert message


def test_each_attribute_has_its_type_in_the_engine() -> None:
    for attribute in ATTRIBUTES:
        wrong = mistakes(f"{attribute.name} == null")
        assert (wrong[0].line, wrong[0].column) == (1, len(attribute.name) + 2)
        assert f"({attribute.kind}, null_type)" in wrong[0].message


def test_a_misspelt_attribute_is_named_with_what_is_near() -> None:
    assert mistakes('tenant.teir == "gold"') == (
        Mistake(1, 7, "unknown attribute or function 'tenant.teir'; did you mean 'tenant.tier'?"),
    )


def test_all_mistakes_of_a_clause_are_named_at_their_lines() -> None:
    found = mistakes('req.est_tokens > "a"\n  && tenant.x == "b"')
    assert [(line, column) for line, column, _ in found] == [(1, 16), (2, 12)]
    assert found[0].message == "'>' does not take (int, string)"


def test_names_of_items_are_no_mistake_beside_the_loop_that_is_one() -> None:
    found = mistakes('req.metadata.exists(k, k == "a") && tenant.teir == "x"')
    assert [(column, message.split("'")[1]) for _, column, message in found] == [
        (20, "exists"),
        (43, "tenant.teir"),
    ]
    assert mistakes("x") == (Mistake(1, 1, "unknown attribute or function 'x'"),)


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("req.est_tokens >", 17, "the clause ends too early"),
        ('req.model = "a"', 11, "'=' compares nothing: write '=='"),
        ("req.stream and req.tools", 12, "write '&&' for 'and'"),
        ("(req.stream", 12, "this is no expression: missing ')' at '<EOF>'"),
        ("not req.stream", 5, "this is no expression: mismatched input 'req'"),
    ],
)
def test_what_is_no_expression_is_said_once_and_without_the_grammar(
    text: str, column: int, words: str
) -> None:
    assert mistakes(text) == (Mistake(1, column, words),)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('req.metadata.exists(k, k == "a")', "'exists' runs over a list"),
        ("[1, 2, 3].all(n, n > 0)", "'all' runs over a list"),
        ('req.model.matches("(a+)+$")', "'matches' may not be used"),
        ('dyn(req.est_tokens) == "a"', "'dyn' may not be used"),
        ("req.est_tokens", "type int"),
        ("has(req.model)", "type string"),
        ("", "ends too early"),
        ("!" * CLAUSE_CHARACTERS_MAX + "req.stream", "characters, at most"),
        ("(" * 200 + "req.stream" + ")" * 200, "nested too deeply"),
        ("+".join(["1"] * 500) + " == 1", "nested too deeply"),
        ("req.stream && \ud800", "not valid Unicode"),
    ],
)
def test_what_is_no_bounded_condition_is_refused(text: str, word: str) -> None:
    assert any(word in mistake.message for mistake in mistakes(text))


@pytest.mark.parametrize(
    ("text", "given", "holds"),
    [
        ("model.params_b >= 30", {"model.params_b": 70.0}, True),
        ("model.params_b >= 30", {"model.params_b": 7.5}, False),
        ("req.est_tokens > 3.5", {"req.est_tokens": 4}, True),
        ("req.metadata.team == 'a'", {"req.metadata": {"team": "a"}}, True),
        ("req.metadata.team == 'a'", {}, False),
        ("has(req.metadata.team)", {}, False),
        ("!('team' in req.metadata)", {}, True),
        ("budget.remaining_usd < 5", {}, False),
        ("time.weekday in [5, 6] || time.hour < 8", {"time.weekday": 6, "time.hour": 12}, True),
        ('tenant.tier in ["gold", "silver"]', {"tenant.tier": "silver"}, True),
        ("tenant.organization.startsWith('org-')", {"tenant.organization": "org-1"}, True),
    ],
)
def test_conditions_of_everyday(text: str, given: Attributes, holds: bool) -> None:
    assert clause(text).holds(completed(given)) is holds


def test_a_memory_forgets_and_goes_on_being_right() -> None:
    even = clause("req.est_tokens % 2 == 0")
    for tokens in range(2 * MEMORY_ENTRIES_MAX + 3):
        assert even.holds(completed({"req.est_tokens": tokens})) is (tokens % 2 == 0)
