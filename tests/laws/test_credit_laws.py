"""Laws of credits as arithmetic: the order is total, the split exact, and usage leaves the ceiling
where it is."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from billing.credits.credit import Burn, Category, CreditLine, Grant, SpendableGrant, rank, split

MODELS = ("small", "large", "other")
TIMES = st.integers(0, 20)
AMOUNTS = st.integers(0, 50) | st.integers(0, 10**15)


@st.composite
def grants_of(draw: st.DrawFn, most: int = 6) -> list[Grant]:
    found = []
    for number in range(draw(st.integers(0, most))):
        from_us = draw(TIMES)
        ends = st.none() | st.integers(from_us + 1, 25)
        found.append(
            Grant(
                grant_id=f"g{number}",
                org="o",
                category=draw(st.sampled_from(Category)),
                amount_nanousd=draw(AMOUNTS) + 1,
                priority=draw(st.integers(0, 2)),
                effective_us=from_us,
                created_us=draw(st.integers(0, from_us)),
                expires_us=draw(ends),
                voided_us=draw(ends),
                models=tuple(draw(st.lists(st.sampled_from(MODELS), max_size=2, unique=True))),
            )
        )
    return found


def amounts(grants: list[Grant]) -> dict[str, int]:
    return {grant.grant_id: grant.amount_nanousd for grant in grants}


@given(grants=grants_of(most=4), amount=AMOUNTS, at_us=TIMES)
def test_the_order_is_total_and_of_the_grants_alone(
    grants: list[Grant], amount: int, at_us: int
) -> None:
    assert len({rank(grant) for grant in grants}) == len(grants)
    left = amounts(grants)
    splits = {
        tuple(split(amount, order, left, model="small", admitted_us=at_us))
        for order in permutations(grants)
    }
    assert len(splits) == 1


def test_the_order_is_the_documented_one() -> None:
    def grant(name: str, **terms: object) -> Grant:
        given = {"category": Category.PAID, "effective_us": 0, "created_us": 1, "priority": 5}
        return Grant(grant_id=name, org="o", amount_nanousd=1, **(given | terms))  # type: ignore[arg-type]

    ordered = [
        grant("first by priority", priority=4),
        grant("then by expiry", expires_us=10, created_us=3),
        grant("a later one", expires_us=11),
        grant("then promotional", category=Category.PROMOTIONAL, created_us=9),
        grant("then the older", created_us=0),
        grant("a", created_us=1),
        grant("b", created_us=1),
        grant("the last", priority=6, expires_us=1),
    ]
    for order in (ordered[::-1], ordered[3:] + ordered[:3]):
        assert sorted(order, key=rank) == ordered


@given(grants=grants_of(), amount=AMOUNTS, at_us=TIMES, model=st.sampled_from(MODELS))
def test_a_split_is_exact_to_the_nano_and_takes_of_each_what_it_has(
    grants: list[Grant], amount: int, at_us: int, model: str
) -> None:
    left = amounts(grants)
    burns = split(amount, grants, left, model=model, admitted_us=at_us)
    usable = [grant for grant in sorted(grants, key=rank) if grant.pays_for(model, at_us)]
    assert sum(burn.amount_nanousd for burn in burns) == min(
        amount, sum(left[grant.grant_id] for grant in usable)
    )
    assert all(0 < burn.amount_nanousd <= left[burn.grant_id] for burn in burns)
    paying = [grant.grant_id for grant in usable][: len(burns)]
    assert [burn.grant_id for burn in burns] == paying, "in order, and none is passed over"
    for burn in burns[:-1]:
        assert burn.amount_nanousd == left[burn.grant_id], "the next pays once this one is empty"


@given(grants=grants_of(), at_us=TIMES, model=st.sampled_from(MODELS))
def test_a_grant_pays_only_within_its_terms(grants: list[Grant], at_us: int, model: str) -> None:
    burned = {b.grant_id for b in split(1, grants, amounts(grants), model=model, admitted_us=at_us)}
    for grant in grants:
        if grant.grant_id in burned:
            assert grant.effective_us <= at_us
            assert all(end is None or at_us < end for end in (grant.expires_us, grant.voided_us))
            assert not grant.models or model in grant.models


def line(grants: list[Grant], left: dict[str, int], cleared: int) -> CreditLine:
    parts = [SpendableGrant(g.effective_us, g.ends_us, g.models, left[g.grant_id]) for g in grants]
    return CreditLine("o", 0, cleared, parts)


@given(
    grants=grants_of(),
    usage=st.lists(st.tuples(AMOUNTS, st.sampled_from(MODELS)), max_size=8),
    at_us=TIMES,
    limit=st.integers(0, 100),
)
def test_usage_never_lowers_a_ceiling_and_leaves_that_of_grants_for_all_where_it_is(
    grants: list[Grant], usage: list[tuple[int, str]], at_us: int, limit: int
) -> None:
    left = amounts(grants)
    spent = owed = 0
    before = {m: line(grants, left, 0).ceiling([m], at_us, limit) for m in MODELS}
    for amount, model in usage:
        burns = split(amount, grants, left, model=model, admitted_us=at_us)
        for burn in burns:
            left[burn.grant_id] -= burn.amount_nanousd
        spent += amount
        owed += amount - sum(burn.amount_nanousd for burn in burns)
        after = {m: line(grants, left, spent - owed).ceiling([m], at_us, limit) for m in MODELS}
        assert all(after[m] >= before[m] for m in MODELS)
        if not any(grant.models for grant in grants):
            assert after == before
        before = after


@given(
    grants=grants_of(),
    wanted=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(MODELS)), max_size=12),
    at_us=TIMES,
    limit=st.integers(0, 40),
)
def test_whoever_stays_below_the_ceiling_never_owes_more_than_the_limit(
    grants: list[Grant], wanted: list[tuple[int, str]], at_us: int, limit: int
) -> None:
    """One call after another, each held against the ceiling as it was at first."""
    left = amounts(grants)
    published = line(grants, left, 0)
    spent = owed = 0
    for amount, model in wanted:
        if spent + amount > published.ceiling([model], at_us, limit):
            continue
        burns = split(amount, grants, left, model=model, admitted_us=at_us)
        for burn in burns:
            left[burn.grant_id] -= burn.amount_nanousd
        spent += amount
        owed += amount - sum(burn.amount_nanousd for burn in burns)
        assert owed <= limit
        assert all(nanousd >= 0 for nanousd in left.values())


@given(grants=grants_of(), at_us=TIMES)
def test_a_call_that_may_end_on_several_models_has_the_least_of_their_ceilings(
    grants: list[Grant], at_us: int
) -> None:
    found = line(grants, amounts(grants), 3)
    each = [found.ceiling([model], at_us, 0) for model in MODELS]
    assert found.ceiling(MODELS, at_us, 0) <= min(each)


def test_without_a_grant_there_is_what_may_be_owed() -> None:
    assert CreditLine("o").ceiling(["m"], 0, 7) == 7
    assert split(5, [], {}, model="m", admitted_us=0) == []
    assert Burn("g", 1) == ("g", 1)
