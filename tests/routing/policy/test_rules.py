"""Matching: the first rule whose clauses all hold, the sticky share of a canary, and the trace."""

from hypothesis import given
from hypothesis import strategies as st

from routing.policy.action import DEFAULT_RULE, Action, Sort
from routing.policy.attributes import Attributes, completed
from routing.policy.conditions import clause
from routing.policy.rules import SHARES, Canary, RoutingPolicy, Rule, StickyBy
from tests.routing.policy.strategies import any_attributes, simple_clauses

CLAUSES = st.lists(simple_clauses(), max_size=3)


def rule(number: int, texts: list[str]) -> Rule:
    action = Action(wait_nanousd_per_s=number)
    return Rule(f"rule-{number}", tuple([clause(text) for text in texts]), action)


def policy(rules: list[Rule]) -> RoutingPolicy:
    return RoutingPolicy(7, tuple(rules), Rule(DEFAULT_RULE, (), Action()))


@given(st.lists(CLAUSES, max_size=5), any_attributes())
def test_the_first_rule_whose_clauses_all_hold_wins(
    texts: list[list[str]], attributes: Attributes
) -> None:
    rules = [rule(number, clauses) for number, clauses in enumerate(texts)]
    holding = [r for r in rules if all(c.holds(attributes) for c in r.when)]
    matched = policy(rules).match(attributes)
    assert matched.policy_revision == 7
    assert matched.rule == (holding[0].id if holding else DEFAULT_RULE)
    assert matched.action == (holding[0].action if holding else Action())


@given(st.lists(CLAUSES, max_size=5), any_attributes())
def test_the_trace_ends_at_the_rule_that_matched_and_says_why(
    texts: list[list[str]], attributes: Attributes
) -> None:
    routing = policy([rule(number, clauses) for number, clauses in enumerate(texts)])
    trace = routing.trace(attributes)
    assert trace[-1].rule == routing.match(attributes).rule
    assert trace[-1].holds
    assert not any(traced.holds for traced in trace[:-1])


@given(st.lists(CLAUSES, max_size=4), CLAUSES, any_attributes(), st.integers(0, 4))
def test_a_rule_that_does_not_hold_changes_nothing_wherever_it_stands(
    texts: list[list[str]], extra: list[str], attributes: Attributes, place: int
) -> None:
    rules = [rule(number, clauses) for number, clauses in enumerate(texts)]
    never = rule(99, [*extra, "false"])
    with_it = policy([*rules[:place], never, *rules[place:]])
    assert with_it.match(attributes) == policy(rules).match(attributes)


@given(any_attributes(), st.integers(0, SHARES), st.integers(0, SHARES), st.sampled_from(StickyBy))
def test_a_larger_share_keeps_the_callers_of_a_smaller_one(
    attributes: Attributes, one: int, other: int, by: StickyBy
) -> None:
    small, large = [Canary(Action(), share, "salt", by) for share in sorted((one, other))]
    assert large.takes(attributes) or not small.takes(attributes)


@given(any_attributes())
def test_no_share_takes_nobody_and_the_whole_takes_everybody(attributes: Attributes) -> None:
    assert not Canary(Action(), 0, "salt").takes(attributes)
    assert Canary(Action(), SHARES, "salt").takes(attributes)


def test_a_share_is_about_that_part_of_the_organizations_and_each_stays() -> None:
    canary = Canary(Action(), SHARES // 10, "salt")
    organizations = [completed({"tenant.organization": f"org-{n}"}) for n in range(5_000)]
    taken = [canary.takes(attributes) for attributes in organizations]
    assert 400 < sum(taken) < 600
    assert taken == [canary.takes(attributes) for attributes in organizations]


def test_a_canary_gives_its_own_action_and_the_shadow_stays() -> None:
    chosen, shadow = Action(sort=Sort.PRICE), Action(sort=Sort.LATENCY)
    whole = Rule("r", (), Action(), Canary(chosen, SHARES, "s"), shadow)
    matched = RoutingPolicy(1, (whole,), Rule(DEFAULT_RULE, (), Action())).match(completed({}))
    assert (matched.action, matched.shadow, matched.is_canary) == (chosen, shadow, True)
