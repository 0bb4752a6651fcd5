"""Documents add up: cents to totals, taxes to their bases, in whatever order amounts come."""

from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from billing.cents import shared_cents, tax_of
from billing.currencies.conversion import Conversion
from billing.documents.composing import compose
from billing.documents.document import (
    DocumentLine,
    Prepayment,
    Reduction,
    TaxCategory,
    TaxTreatment,
    UnsoundDocument,
    bases,
)
from billing.money import NANOUSD_PER_CENT, whole_cents
from tests.billing.documents.made import (
    EXEMPT,
    FIRST_DAY,
    STANDARD,
    TREATMENTS,
    document,
    heading,
    line,
)
from tests.laws.examples import examples

LAW = settings(max_examples=examples(100), deadline=None)
amounts = st.integers(-(10**14), 10**14) | st.integers(-3, 3) | st.sampled_from([5_000_000, -1])
treatments = st.sampled_from(TREATMENTS)


def line_of(seq: int, amount: int, tax: TaxTreatment) -> DocumentLine:
    return line(seq, quantity=(amount > 0) - (amount < 0), amount_nanousd=amount, tax=tax)


lines_of_any = st.lists(st.tuples(amounts, treatments), max_size=12).map(
    lambda parts: [line_of(seq, *part) for seq, part in enumerate(parts, 1)]
)
reductions_of_any = st.lists(st.tuples(st.integers(0, 10**12), treatments), max_size=4).map(
    lambda parts: [
        Reduction(1_000 + seq, "credit", f"credit {seq}", amount, tax)
        for seq, (amount, tax) in enumerate(parts)
    ]
)
prepayments_of_any = st.lists(st.integers(0, 10**12), max_size=4).map(
    lambda parts: [Prepayment(f"grant {n}", amount) for n, amount in enumerate(parts)]
)


@LAW
@given(st.lists(amounts, max_size=40))
@example([3_333_333, 3_333_333, 3_333_334])
@example([-1, 1])
def test_cents_of_parts_sum_to_the_cents_of_the_sum_and_none_is_a_cent_off(
    parts: list[int],
) -> None:
    cents = shared_cents(parts)
    assert sum(cents) == whole_cents(sum(parts))
    for amount, whole in zip(parts, cents, strict=True):
        assert abs(whole * NANOUSD_PER_CENT - amount) < NANOUSD_PER_CENT


def test_cent_that_is_left_goes_to_the_largest_remainder_and_then_to_the_earlier_part() -> None:
    assert shared_cents([4_000_000, 6_000_000]) == (0, 1)
    assert shared_cents([5_000_000, 5_000_000]) == (1, 0)


@LAW
@given(st.integers(-(10**12), 10**12), st.integers(0, 1_000_000))
def test_tax_is_the_rate_of_the_base_rounded_to_a_cent_and_mirrors(base: int, ppm: int) -> None:
    exact = Decimal(base) * ppm / 1_000_000
    assert tax_of(base, ppm) == int(exact.quantize(Decimal(1), ROUND_HALF_UP))
    assert tax_of(-base, ppm) == -tax_of(base, ppm)


@LAW
@given(lines_of_any, reductions_of_any, prepayments_of_any, st.integers())
def test_sums_of_en_16931_hold_in_any_order(
    lines: list[DocumentLine], reduced: list[Reduction], paid: list[Prepayment], seed: int
) -> None:
    made = compose(heading(), lines, reductions=reduced, prepayments=paid)
    totals = made.totals
    exact = sum(x.amount_nanousd for x in lines) - sum(x.amount_nanousd for x in reduced)
    assert totals.net_cents == whole_cents(exact)
    assert totals.net_cents == sum(x.amount_cents for x in made.lines) - sum(
        x.amount_cents for x in made.reductions
    )
    assert totals.net_cents == sum(tax.base_cents for tax in made.taxes)
    assert totals.due_cents + totals.paid_cents == totals.net_cents + totals.tax_cents
    assert totals.paid_cents == whole_cents(sum(x.amount_nanousd for x in paid))
    order = Random(seed)
    again = compose(
        heading(),
        order.sample(lines, len(lines)),
        reductions=order.sample(reduced, len(reduced)),
        prepayments=order.sample(paid, len(paid)),
    )
    assert again == made


def test_discount_lowers_the_tax_and_a_payment_on_account_only_what_is_due() -> None:
    ten = line(amount_nanousd=10 * 10**9)
    reduced = document([ten], reductions=[Reduction(2, "credit", "promo", 4 * 10**9, STANDARD)])
    assert (reduced.totals.tax_cents, reduced.totals.due_cents) == (114, 714)
    paid = document([ten], prepayments=[Prepayment("paid credit", 4 * 10**9)])
    assert (paid.totals.tax_cents, paid.totals.total_cents, paid.totals.due_cents) == (
        190,
        1190,
        790,
    )


@pytest.mark.parametrize(
    "treatment",
    [
        TaxTreatment(TaxCategory.STANDARD),
        TaxTreatment(TaxCategory.STANDARD, 190_000, "VATEX-EU-AE"),
        TaxTreatment(TaxCategory.ZERO, 190_000),
        TaxTreatment(TaxCategory.REVERSE_CHARGE),
        TaxTreatment(TaxCategory.EXEMPT, 190_000, "VATEX-EU-132"),
    ],
    ids=str,
)
def test_treatment_that_is_none_is_refused(treatment: TaxTreatment) -> None:
    with pytest.raises(UnsoundDocument, match="category"):
        document([line(tax=treatment)])


def test_amounts_that_no_document_may_say_are_refused() -> None:
    for wrong, why in (
        (line(unit_price_nanousd=-1), "unit prices"),
        (line(quantity=-1), "taken back"),
    ):
        with pytest.raises(UnsoundDocument, match=why):
            document([wrong])
    with pytest.raises(UnsoundDocument, match="one place"):
        document([line(1), line(1)])
    with pytest.raises(UnsoundDocument, match="below zero: promo"):
        document(reductions=[Reduction(2, "credit", "promo", -1, STANDARD)])


def test_document_that_was_changed_by_a_cent_cannot_be_made() -> None:
    made = document([line(1), line(2, tax=EXEMPT)])
    for name in made.totals.__slots__:
        totals = replace(made.totals, **{name: getattr(made.totals, name) + 1})
        with pytest.raises(UnsoundDocument):
            replace(made, totals=totals)
    dearer = replace(made.lines[0], amount_cents=made.lines[0].amount_cents + 1)
    with pytest.raises(UnsoundDocument):
        replace(made, lines=(dearer, *made.lines[1:]))
    taxed = replace(made.taxes[0], tax_cents=made.taxes[0].tax_cents + 1)
    with pytest.raises(UnsoundDocument):
        replace(made, taxes=(taxed, *made.taxes[1:]))
    assert list(bases(made.lines, ())) == [EXEMPT, STANDARD]


def test_conversion_is_one_rate_rounded_half_away_from_zero() -> None:
    rate = Conversion("EUR", 925_000_000, FIRST_DAY, "ECB")
    assert (rate.cents(100), rate.cents(2), rate.cents(-100)) == (93, 2, -93)
