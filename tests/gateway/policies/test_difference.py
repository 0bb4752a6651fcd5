"""What differs between two documents: laws first, then an operator's examples."""

from __future__ import annotations

from collections.abc import Sequence

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gateway.policies.difference import (
    ChangedPart,
    ChangeKind,
    PolicyChange,
    WordChange,
    difference,
)

Rules = Sequence[tuple[str, int]]
RULE_IDS = ["a", "b", "c", "d", "e", "f"]
RULES = st.lists(
    st.tuples(st.sampled_from(RULE_IDS), st.integers(0, 2)), unique_by=lambda rule: rule[0]
)


def document(rules: Rules, *, tests: Sequence[str] = (), sort: str = "price") -> str:
    values = {
        "apiVersion": "gateway/v1",
        "kind": "RoutingPolicy",
        "rules": [
            {"id": name, "when": [f"req.est_tokens > {size}"], "route": {"sort": "price"}}
            for name, size in rules
        ],
        "default": {"route": {"sort": sort}},
        "tests": [{"name": name, "input": {}, "expect": {"rule": "default"}} for name in tests],
    }
    return yaml.safe_dump(values)


def names(changes: Sequence[PolicyChange], kind: ChangeKind) -> set[str]:
    return {change.name for change in changes if change.kind is kind}


@given(RULES)
def test_nothing_differs_from_itself(rules: Rules) -> None:
    assert difference(document(rules), document(rules)) == ()


@given(RULES, RULES)
def test_each_rule_that_came_went_or_changed_is_named_and_no_other(old: Rules, new: Rules) -> None:
    changes = difference(document(old), document(new))
    was, now = dict(old), dict(new)
    assert names(changes, ChangeKind.ADDED) == now.keys() - was.keys()
    assert names(changes, ChangeKind.REMOVED) == was.keys() - now.keys()
    changed = {name for name in was.keys() & now.keys() if was[name] != now[name]}
    assert names(changes, ChangeKind.CHANGED) == changed


@given(RULES, RULES)
def test_rules_that_did_not_move_stand_in_the_order_they_had(old: Rules, new: Rules) -> None:
    moved = names(difference(document(old), document(new)), ChangeKind.MOVED)
    was, now = [name for name, _ in old], [name for name, _ in new]
    still = [name for name in was if name in now and name not in moved]
    assert still == [name for name in now if name in still]


@given(RULES, st.data())
def test_one_rule_that_moves_is_one_move(rules: Rules, data: st.DataObject) -> None:
    rest = list(rules)
    moving = rest.pop(data.draw(st.integers(0, len(rest) - 1))) if rest else ("a", 0)
    place = data.draw(st.integers(0, len(rest)))
    changes = difference(document(rules), document([*rest[:place], moving, *rest[place:]]))
    assert len(names(changes, ChangeKind.MOVED)) <= 1


@given(RULES, RULES)
def test_the_way_back_is_the_same_way(old: Rules, new: Rules) -> None:
    there = difference(document(old), document(new))
    back = difference(document(new), document(old))
    assert names(there, ChangeKind.ADDED) == names(back, ChangeKind.REMOVED)
    assert {(c.name, *w) for c in there for w in c.words} == {
        (c.name, w.word, w.after, w.before) for c in back for w in c.words
    }


def test_rule_that_moved_up_is_the_one_that_is_named() -> None:
    old, new = document([("a", 1), ("b", 1), ("c", 1)]), document([("c", 1), ("a", 1), ("b", 1)])
    rule, moved = ChangedPart.RULE, ChangeKind.MOVED
    assert difference(old, new) == (PolicyChange(rule, "c", moved, 3, 1),)


def test_changed_words_are_told_with_both_values() -> None:
    old = document([("a", 1)], tests=["one"])
    new = document([("a", 2)], tests=["one", "two"], sort="latency")
    changed, clause = ChangeKind.CHANGED, "req.est_tokens > "
    assert difference(old, new) == (
        PolicyChange(
            ChangedPart.RULE,
            "a",
            changed,
            1,
            1,
            (WordChange("when", f"{clause}1", None), WordChange("when", None, f"{clause}2")),
        ),
        PolicyChange(
            ChangedPart.DEFAULT,
            "default",
            changed,
            None,
            None,
            (WordChange("route.sort", "price", "latency"),),
        ),
        PolicyChange(ChangedPart.TEST, "two", ChangeKind.ADDED, None, 2),
    )


def test_what_means_the_same_is_no_difference() -> None:
    short = document([("a", 1)])
    long = "# a comment\n" + short.replace("sort: price", "sort: {by: price}")
    assert long.count("{by: price}") == 2
    assert difference(short, long) == ()
