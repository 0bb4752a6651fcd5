"""A rule that is said to be unreachable never is reached; the usual ways to write one are seen."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.policy.action import DEFAULT_RULE, Action
from routing.policy.attributes import Attributes, completed
from routing.policy.cells import CELLS_MAX
from routing.policy.conditions import clause
from routing.policy.reach import Unreached, unreached
from routing.policy.rules import RoutingPolicy, Rule
from routing.types import Tier
from tests.routing.policy.strategies import any_attributes, any_clauses, simple_clauses

FEW = [
    *("req.stream", "!req.stream", "req.stream != true", "true", "1 > 2"),
    *("time.hour > 1", "time.hour >= 1", "time.hour < 2", "time.hour <= 2", "time.hour > 22"),
    *("time.hour == 2", "time.hour != 2", "time.hour > 1.5", "time.hour > 30"),
    *('req.model == "a"', 'req.model != "a"', 'req.model in ["a", "b"]'),
    *('req.service_tier == "flex"', 'req.service_tier != "flex"'),
]
JOINED = st.recursive(
    st.sampled_from(FEW),
    lambda inner: st.one_of(
        st.builds(lambda a, b: f"({a}) && ({b})", inner, inner),
        st.builds(lambda a, b: f"({a})||({b})", inner, inner),
        inner.map(lambda a: f"!({a})"),
    ),
    max_leaves=4,
)
CLAUSES = st.lists(st.one_of(JOINED, simple_clauses(), any_clauses()), max_size=3)
GRID: list[Attributes] = [
    completed(
        {
            "req.stream": stream,
            "time.hour": hour,
            "req.model": model,
            "req.service_tier": tier,
        }
    )
    for stream in (True, False)
    for hour in (0, 1, 2, 3, 22, 23)
    for model in "abc"
    for tier in Tier
]
"""Every call, as far as clauses of `FEW` tell calls apart."""


def policy(rules: list[list[str]]) -> RoutingPolicy:
    return RoutingPolicy(
        1,
        tuple([Rule(str(n), tuple(map(clause, texts)), Action()) for n, texts in enumerate(rules)]),
        Rule(DEFAULT_RULE, (), Action()),
    )


@settings(max_examples=150)
@given(st.lists(CLAUSES, min_size=1, max_size=5), st.lists(any_attributes(), max_size=3))
def test_what_is_called_unreachable_is_never_matched(
    rules: list[list[str]], calls: list[Attributes]
) -> None:
    never = {str(each.rule) for each in unreached(rules)}
    routing = policy(rules)
    for call in (*calls, *GRID) if never else ():
        assert routing.match(call).rule not in never


@settings(max_examples=200)
@given(st.lists(st.lists(JOINED, max_size=2), min_size=1, max_size=5))
def test_every_rule_that_comparisons_leave_no_call_is_seen(rules: list[list[str]]) -> None:
    routing = policy(rules)
    matched = {routing.match(call).rule for call in GRID}
    never = [each.rule for each in unreached(rules)]
    assert never == [place for place in range(len(rules)) if str(place) not in matched]


@settings(max_examples=200)
@given(st.lists(st.lists(JOINED, max_size=2), min_size=1, max_size=5))
def test_the_rules_that_are_named_take_all_of_its_calls(rules: list[list[str]]) -> None:
    for each in unreached(rules):
        hiding = [policy([rules[place]]) for place in each.hidden_by]
        own = policy([rules[each.rule]])
        for call in GRID:
            assert own.match(call).rule != "0" or any(one.match(call).rule == "0" for one in hiding)


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ([], ["req.stream"]),
        (["true"], []),
        (["req.stream"], ["req.stream", "time.hour > 3"]),
        (["req.est_tokens > 1000"], ["req.est_tokens >= 32000"]),
        (["req.est_tokens >= 1000"], ["req.est_tokens == 1000"]),
        (["req.est_tokens>-1"], ["req.tools"]),
        (["model.params_b < 30"], ["model.params_b <= 29.5", "req.tools"]),
        (['req.service_tier != "flex"'], ['req.service_tier == "priority"']),
        (['req.model in ["a", "b"]'], ['"x" == "x"', 'req.model == "b"']),
        (['req.model in ["a", "b", "c"]'], ['req.model == "a" || req.model == "b"']),
        (['req.model == "a" || req.stream'], ["req.stream == true"]),
        (["req.stream && time.hour < 12"], ["req.stream", "time.hour < 9"]),
        (["time.hour != 3"], ["time.hour > 3"]),
        (["time.hour < 24"], ["req.tools"]),
        (["1 < 2"], ["req.tools"]),
        (["!(req.stream && req.tools)"], ["!req.tools"]),
        (["((req.stream))"], ["(req.stream && (time.hour < 3))"]),
        (["size(req.metadata) > 1"], ["size(req.metadata)>1", "req.tools"]),
        (['req.model.startsWith("a") || req.tools'], ['( req.model.startsWith("a") )']),
        (['!(req.model > "a")'], ['!(req.model > "a") && req.stream']),
    ],
)
def test_a_rule_behind_a_wider_one_is_seen(earlier: list[str], later: list[str]) -> None:
    assert unreached([earlier, later]) == (Unreached(1, (0,)),)
    assert unreached([later]) == ()


@pytest.mark.parametrize(
    ("rules", "hidden_by"),
    [
        ([["req.stream"], ["!req.stream"], ["req.tools"]], (0, 1)),
        ([["time.hour < 12"], ["req.tools"], ["time.hour >= 12"], []], (0, 2)),
        ([["time.hour < 12"], ["time.hour > 11"], []], (0, 1)),
        ([["time.hour < 12"], ["true"], []], (1,)),
        ([[f'req.service_tier == "{tier}"'] for tier in Tier] + [[]], (0, 1, 2)),
        (
            [
                ['req.model == "a"'],
                ['req.model == "b"', "req.stream"],
                ['req.model == "b"', "!req.stream"],
                ['req.model in ["a", "b"]'],
            ],
            (0, 1, 2),
        ),
    ],
)
def test_a_rule_behind_several_that_leave_it_nothing_is_seen_with_their_places(
    rules: list[list[str]], hidden_by: tuple[int, ...]
) -> None:
    assert unreached(rules) == (Unreached(len(rules) - 1, hidden_by),)


@pytest.mark.parametrize(
    "clauses",
    [
        ["false"],
        ["!true"],
        ["2 < 1"],
        ["1 / 0 > 1"],
        ["req.stream", "!req.stream"],
        ["req.stream && !(req.stream || req.tools)"],
        ["time.hour > 5", "time.hour < 5"],
        ["time.hour > 5 && time.hour == 5"],
        ["time.hour > 5", "time.hour < 6"],
        ["time.hour >= 24"],
        ["time.weekday == 7"],
        ["req.est_tokens < 0"],
        ['req.service_tier == "gold"'],
        ['req.model == "a"', 'req.model != "a"'],
        ['req.model in ["a", "b"]', 'req.model == "c"'],
        ['req.model.startsWith("a")', '!(req.model.startsWith("a"))'],
    ],
)
def test_clauses_that_no_call_meets_are_seen(clauses: list[str]) -> None:
    assert unreached([clauses]) == (Unreached(0, ()),)


@pytest.mark.parametrize(
    "rules",
    [
        [["req.est_tokens > 1000"], ["req.est_tokens > 100"], ['req.model == "a"'], []],
        [['req.metadata.a == "x"'], ['!(req.metadata.a == "x")'], []],
        [["req.stream ? req.tools : true"], ["req.tools"]],
        [['req.model == "a || true"'], ['req.model == "b"']],
        [["budget.remaining_usd < 1"], ["budget.remaining_usd > 1"], []],
        [["model.params_b < 1"], ["model.params_b > 1"], ["model.params_b < 1.5"]],
        [["model.params_b <= 1"], ["model.params_b >= 2"], []],
        [["time.hour <= 2"], ["time.hour > 22"], []],
        [['req.model == "a" // || true'], ["req.tools"]],
        [[r'req.model == r"\"'], ["req.tools"]],
    ],
)
def test_rules_with_calls_of_their_own_are_reached(rules: list[list[str]]) -> None:
    assert unreached(rules) == ()


def test_documents_that_would_take_for_ever_are_taken_as_reached() -> None:
    """Each clause doubles what is left of the rules behind it, and each name is one more cell."""
    wide = [f'(req.model == "{n}" || req.stream)' for n in range(16)]
    names = ", ".join(f'"{number}"' for number in range(CELLS_MAX + 1))
    assert unreached([wide, ["req.stream"], []]) == ()
    assert unreached([[f"req.model in [{names}]"], ['req.model == "1"']]) == ()
    mixed = [
        [f"time.hour != {n % 24}", f"req.est_tokens != {n}", f"req.max_tokens != {n}"]
        for n in range(100)
    ]
    assert [each.rule for each in unreached([*mixed, ["true"], []])][-1:] == [101]
