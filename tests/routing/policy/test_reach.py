"""A rule that is said to be unreachable never is reached; the usual ways to write one are seen."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.policy.action import DEFAULT_RULE, Action
from routing.policy.attributes import Attributes
from routing.policy.conditions import clause
from routing.policy.reach import Unreached, unreached
from routing.policy.rules import RoutingPolicy, Rule
from tests.routing.policy.strategies import any_attributes, simple_clauses

FEW = st.sampled_from(
    [
        *("req.stream", "!req.stream", "req.stream != true", "true"),
        *("time.hour > 1", "time.hour >= 1", "time.hour < 2", "time.hour <= 2"),
        *("time.hour == 2", "time.hour != 2", "time.hour > 1.5"),
        *('req.model == "a"', 'req.model != "a"', 'req.model in ["a", "b"]', 'req.model > "a"'),
        *('req.model in ["b"] || time.hour > 3', 'req.model == "b" && time.hour > 2'),
    ]
)
CLAUSES = st.lists(st.one_of(FEW, simple_clauses()), max_size=3)


@settings(max_examples=400)
@given(st.lists(CLAUSES, min_size=1, max_size=5), any_attributes(), st.integers(0, 4))
def test_what_is_called_unreachable_is_never_matched(
    rules: list[list[str]], attributes: Attributes, hour: int
) -> None:
    policy = RoutingPolicy(
        1,
        tuple([Rule(str(n), tuple(map(clause, texts)), Action()) for n, texts in enumerate(rules)]),
        Rule(DEFAULT_RULE, (), Action()),
    )
    never = {str(each.rule) for each in unreached(rules)}
    for model in ("a", "b", "c"):
        near = {**attributes, "time.hour": hour, "req.model": model}
        assert policy.match(near).rule not in never


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ([], ["req.stream"]),
        (["true"], []),
        (["req.stream"], ["req.stream", "time.hour > 3"]),
        (["req.est_tokens > 1000"], ["req.est_tokens >= 32000"]),
        (["req.est_tokens >= 1000"], ["req.est_tokens == 1000"]),
        (["model.params_b < 30"], ["model.params_b <= 29.5", "req.tools"]),
        (['req.service_tier != "flex"'], ['req.service_tier == "priority"']),
        (['req.model in ["a", "b"]'], ['"x" == "x"', 'req.model == "b"']),
        (['req.model == "a" || req.stream'], ["req.stream == true"]),
        (["req.stream && time.hour < 12"], ["req.stream", "time.hour < 9"]),
        (["time.hour != 3"], ["time.hour > 3"]),
        (["size(req.metadata) > 1"], ["size(req.metadata) > 1", "req.tools"]),
    ],
)
def test_a_rule_behind_a_wider_one_is_seen(earlier: list[str], later: list[str]) -> None:
    assert unreached([earlier, later]) == (Unreached(1, 0),)
    assert unreached([later]) == ()


@pytest.mark.parametrize(
    "clauses",
    [
        ["false"],
        ["req.stream", "!req.stream"],
        ["time.hour > 5", "time.hour < 5"],
        ["time.hour > 5 && time.hour == 5"],
        ['req.model == "a"', 'req.model != "a"'],
        ['req.model in ["a", "b"]', 'req.model == "c"'],
    ],
)
def test_clauses_that_contradict_each_other_are_seen(clauses: list[str]) -> None:
    assert unreached([clauses]) == (Unreached(0, None),)


def test_rules_that_overlap_are_both_reached() -> None:
    rules = [["req.est_tokens > 1000"], ["req.est_tokens > 100"], ['req.model == "a"'], []]
    assert unreached(rules) == ()
