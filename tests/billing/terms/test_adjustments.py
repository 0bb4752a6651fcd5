"""Laws of terms: never below zero, tiers monotone, one order, and credit that has paid stays."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.invoices.invoicing import TERM_KINDS, LineKind
from billing.terms.adjustments import MonthCharges, Part, Used, adjustments, price_of
from billing.terms.term import (
    AllowanceTerm,
    AmountTerm,
    BadTerms,
    MinimumTerm,
    PercentTerm,
    PriceStep,
    Term,
    TierMode,
    TierTerm,
    checked,
    in_month,
)
from tests.laws.examples import examples

FROM = {"first_month": "2026-10"}
USD = 10**9
MODELS, COMPONENTS = ("a", "b"), ("input", "output")

units = st.integers(0, 10**9)
amounts = st.integers(0, 10**13)
prices = st.integers(0, 10**10)
selections = st.fixed_dictionaries(
    {"model": st.sampled_from(("", *MODELS)), "component": st.sampled_from(("", *COMPONENTS))}
)
used = st.builds(
    Used,
    st.builds(Part, st.sampled_from(MODELS), st.just("default"), st.sampled_from(COMPONENTS)),
    units,
    amounts,
)


@st.composite
def steps(draw: st.DrawFn) -> tuple[PriceStep, ...]:
    ends = sorted(draw(st.sets(st.integers(1, 10**9), max_size=4)))
    return tuple(PriceStep(end, draw(prices)) for end in [*ends, None])


@st.composite
def terms(draw: st.DrawFn) -> list[Term]:
    made: list[Term] = []
    for number in range(draw(st.integers(0, 4))):
        named = {"term_id": f"t{number}", **FROM}
        of_kind = {
            "percent": st.builds(
                lambda r, n=named: PercentTerm(rate_ppm=r, **n), st.integers(1, 10**6)
            ),
            "amount": st.builds(lambda a, n=named: AmountTerm(amount_nanousd=a, **n), amounts),
            "allowance": st.builds(
                lambda u, s, n=named: AllowanceTerm(units=u, **s, **n), units, selections
            ),
            "tiers": st.builds(
                lambda p, s, m, n=named: TierTerm(steps=p, mode=m, **s, **n),
                *(steps(), selections, st.sampled_from(TierMode)),
            ),
        }
        made.append(draw(of_kind[draw(st.sampled_from(sorted(of_kind)))]))
    if draw(st.booleans()):
        made.append(MinimumTerm(term_id="min", amount_nanousd=draw(amounts), **FROM))
    return draw(st.permutations(made))


months = st.lists(used, max_size=5)


@settings(max_examples=examples(300), deadline=None)
@given(months, terms(), st.integers(0, 100), st.integers(0, 100))
def test_month_is_never_below_zero_and_at_least_its_minimum(
    used: list[Used], terms: list[Term], paid: int, promotional: int
) -> None:
    gross = sum(each.amount_nanousd for each in used)
    by_credit = (gross * paid // 200, gross * promotional // 200)
    made = adjustments(MonthCharges(tuple(used), *by_credit), terms)
    unpaid = gross - sum(by_credit) + sum(each.amount_nanousd for each in made)
    assert unpaid >= 0
    for term in terms:
        if isinstance(term, MinimumTerm):
            assert unpaid + by_credit[0] >= term.amount_nanousd
    places = [TERM_KINDS.index(each.kind) for each in made]
    assert places == sorted(places)
    lowered = [each for each in made if each.kind in (LineKind.ALLOWANCE, LineKind.DISCOUNT)]
    assert all(each.amount_nanousd < 0 for each in lowered)
    assert adjustments(MonthCharges(tuple(reversed(used)), *by_credit), terms) == made


@settings(max_examples=examples(300), deadline=None)
@given(steps(), units, st.integers(1, 10**6))
def test_graduated_prices_rise_with_each_unit_by_no_more_than_the_dearest(
    steps: tuple[PriceStep, ...], units: int, more: int
) -> None:
    less, then = (price_of(count, steps, TierMode.GRADUATED) for count in (units, units + more))
    dearest = max(step.nanousd_per_mtok for step in steps)
    assert 0 <= then - less <= more * dearest / 1e6 + 1
    at = {step.nanousd_per_mtok for step in steps}
    if len(at) == 1:
        assert then == price_of(units + more, steps, TierMode.VOLUME)


def month(*quantities: int, price: int = 2 * USD) -> MonthCharges:
    return MonthCharges(
        tuple(
            Used(Part("a", "default", "output"), quantity, quantity * price // 10**6)
            for quantity in quantities
        )
    )


def test_all_terms_of_one_month_in_their_order() -> None:
    """10 M units at 2 USD: 20. Tiers: 4 M at 2 and 6 M at 1: 14. A tenth is free: 12.60. 10 % off:
    11.34. 1 USD off: 10.34. At least 15: 4.66 are lacking."""
    tiers = (PriceStep(4_000_000, 2 * USD), PriceStep(None, USD))
    terms = (
        MinimumTerm(term_id="min", amount_nanousd=15 * USD, **FROM),
        AmountTerm(term_id="usd", amount_nanousd=USD, **FROM),
        PercentTerm(term_id="off", rate_ppm=100_000, **FROM),
        AllowanceTerm(term_id="free", units=1_000_000, model="a", **FROM),
        TierTerm(term_id="steps", steps=tiers, component="output", **FROM),
    )
    made = adjustments(month(9_000_000, 1_000_000), terms)
    assert [(each.term.term_id, each.amount_nanousd / USD) for each in made] == [
        ("steps", -6),
        ("free", -1.4),
        ("off", -1.26),
        ("usd", -1),
        ("min", 4.66),
    ]


def test_volume_price_is_that_of_the_last_unit() -> None:
    steps = (PriceStep(1_000_000, 2 * USD), PriceStep(None, USD))
    assert price_of(1_000_000, steps, TierMode.VOLUME) == 2 * USD
    assert price_of(1_000_001, steps, TierMode.VOLUME) == USD + 1_000


def test_allowance_above_what_was_used_makes_it_free_and_no_more() -> None:
    (free,) = adjustments(month(500), [AllowanceTerm(term_id="f", units=10**9, **FROM)])
    assert free.amount_nanousd == -1_000_000
    assert adjustments(month(), [AllowanceTerm(term_id="f", units=1, **FROM)]) == ()


def test_term_holds_from_its_first_to_its_last_month() -> None:
    term = PercentTerm(term_id="p", rate_ppm=1, first_month="2026-10", last_month="2027-01")
    held = ["2026-09", "2026-10", "2027-01", "2027-02"]
    assert [bool(in_month([term], each)) for each in held] == [False, True, True, False]


MINIMUM = MinimumTerm(term_id="m", amount_nanousd=1, **FROM)
TIERS = TierTerm(term_id="t", steps=(PriceStep(None, 1),), model="a", **FROM)


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ([MINIMUM, PercentTerm(term_id="m", rate_ppm=1, **FROM)], "id"),
        ([PercentTerm(term_id="p", rate_ppm=10**6 + 1, **FROM)], "percent"),
        ([AmountTerm(term_id="a", amount_nanousd=0, **FROM)], "amount_usd"),
        ([AllowanceTerm(term_id="a", units=0, **FROM)], "units"),
        ([AllowanceTerm(term_id="a", units=1, component="tokens", **FROM)], "component"),
        ([PercentTerm(term_id="p", rate_ppm=1, first_month="2026-13")], "first_month"),
        (
            [PercentTerm(term_id="p", rate_ppm=1, first_month="2026-10", last_month="2026-09")],
            "last_month",
        ),
        ([MINIMUM, MinimumTerm(term_id="n", amount_nanousd=1, first_month="2027-01")], "kind"),
        ([TIERS, TierTerm(term_id="u", steps=TIERS.steps, component="input", **FROM)], "tiers"),
        ([TierTerm(term_id="t", steps=(), **FROM)], "tiers"),
        ([TierTerm(term_id="t", steps=(PriceStep(5, 1),), **FROM)], "tiers"),
        (
            [
                TierTerm(
                    term_id="t",
                    steps=(PriceStep(5, 1), PriceStep(5, 1), PriceStep(None, 1)),
                    **FROM,
                )
            ],
            "tiers",
        ),
    ],
)
def test_terms_that_contradict_are_refused_with_their_field(terms: list[Term], field: str) -> None:
    with pytest.raises(BadTerms) as wrong:
        checked(terms)
    assert wrong.value.field == field


def test_tiers_of_other_models_or_months_go_together() -> None:
    other = TierTerm(term_id="u", steps=TIERS.steps, model="b", **FROM)
    earlier = TierTerm(term_id="v", steps=TIERS.steps, first_month="2026-01", last_month="2026-09")
    assert checked([TIERS, other, earlier]) == (TIERS, other, earlier)
