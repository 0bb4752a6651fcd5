"""The attributes of a call, and what is left of its budgets."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import overloaded
from gateway.limits.budgets import KeyBudgets, Standing
from gateway.policies.active import ActivePolicy
from gateway.policies.attributes import attributes_of
from gateway.policies.document import compiled
from gateway.policies.matching import FRESH_S, Matching
from gateway.policies.shipped import shipped_policy
from gateway.wire.bodies.chat import parse_chat
from routing.policy.attributes import ATTRIBUTES, Attributes
from routing.policy.rules import RoutingPolicy
from tests.routing.fleets import NOW_S, call

PLAIN = parse_chat(b'{"model": "small", "messages": [{"role": "user", "content": "x"}]}')
RICH = parse_chat(
    b'{"model": "small", "messages": [{"role": "user", "content": "x"}], "stream": true,'
    b' "metadata": {"use_case": "code", "team": "a"}, "tools": [{"type": "function", "function":'
    b' {"name": "look", "parameters": {"type": "object", "properties": {}}}}]}'
)
POOR = """
apiVersion: gateway/v1
kind: RoutingPolicy
rules:
  - {id: poor, when: ['budget.remaining_usd < 1.0'], route: {sort: {by: price}}}
default: {route: {}}
"""


def attributes(request: Any = PLAIN, now_s: float = NOW_S, **changes: Any) -> Attributes:
    return attributes_of(call(**changes), request, {"small": 8.0}, inf, now_s)


def test_every_declared_attribute_has_a_value_of_its_type() -> None:
    types = {"string": str, "int": int, "double": float, "bool": bool, "map(string, string)": dict}
    found = attributes(RICH)
    assert found.keys() == {attribute.name for attribute in ATTRIBUTES}
    for attribute in ATTRIBUTES:
        assert type(found[attribute.name]) is types[attribute.kind.value], attribute.name


def test_a_request_says_its_use_case_and_tools() -> None:
    rich, plain = attributes(RICH), attributes()
    assert (rich["req.use_case"], plain["req.use_case"]) == ("code", "")
    assert (rich["req.tools"], plain["req.tools"]) == (True, False)
    assert rich["req.metadata"] == {"use_case": "code", "team": "a"}


def test_the_tier_of_a_tenant_is_its_organizations_and_empty_without() -> None:
    tiers = [attributes(**said)["tenant.tier"] for said in ({}, {"tenant_tier": "gold"})]
    assert tiers == ["", "gold"]


def test_auto_is_a_name_and_its_largest_model_counts() -> None:
    assert attributes()["model.name"] == "small"
    auto = attributes_of(call("small", "large"), PLAIN, {"small": 8.0, "large": 70.0}, 1.0, NOW_S)
    assert (auto["model.name"], auto["model.params_b"]) == ("auto", 70.0)
    assert auto["budget.remaining_usd"] == 1.0


@given(st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)))
def test_hours_and_weekdays_are_those_of_utc(now: datetime) -> None:
    found = attributes(now_s=now.timestamp())
    assert (found["time.hour"], found["time.weekday"]) == (now.hour, now.weekday())


class Standings:
    """A ledger with so much left, or one that is away."""

    def __init__(self, *left_nanousd: int) -> None:
        self.left_nanousd = left_nanousd
        self.asked = 0

    async def of(self, bound: object) -> list[Standing]:
        self.asked += 1
        if not self.left_nanousd:
            raise overloaded("The limiter is out of reach.", 1.0)
        return [Standing(each, 0, None, None, None) for each in self.left_nanousd]


class Now:
    s = NOW_S

    def __call__(self) -> float:
        return self.s


def matching(policy: RoutingPolicy, standings: Standings, now: Now) -> Matching:
    catalog = SimpleNamespace(catalog=SimpleNamespace(params_b={}))
    return Matching(ActivePolicy(policy), cast(Any, catalog), cast(Any, standings), now)


BUDGETED = cast(
    Any, SimpleNamespace(key="key_1", budgets=KeyBudgets(own=cast(Any, (("b1", ""), ("b2", "")))))
)


async def test_the_tightest_budget_counts_and_is_asked_for_once_a_second() -> None:
    standings, now = Standings(5 * 10**9, 400_000_000), Now()
    poor = matching(compiled(POOR, revision=4), standings, now)
    for _ in range(3):
        assert await poor.remaining_usd(BUDGETED) == pytest.approx(0.4)
    assert standings.asked == 1
    assert poor.match(call(), PLAIN, 0.4).matched.rule == "poor"
    assert poor.match(call(), PLAIN, inf).matched.rule == "default"
    now.s += FRESH_S + 1
    standings.left_nanousd = ()
    assert await poor.remaining_usd(BUDGETED) == pytest.approx(0.4), "what was known last"
    assert standings.asked == 2


async def test_nobody_is_asked_where_no_clause_reads_a_budget() -> None:
    standings = Standings(1)
    shipped = matching(shipped_policy(), standings, Now())
    assert await shipped.remaining_usd(BUDGETED) == inf
    unbudgeted = cast(Any, SimpleNamespace(key="key_2", budgets=KeyBudgets()))
    poor = matching(compiled(POOR, revision=4), standings, Now())
    assert await poor.remaining_usd(unbudgeted) == inf
    assert standings.asked == 0
