"""A credit takes tax back in proportion, never more than is left, and the last one all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.cents import taxes_of
from billing.credit_notes.note import (
    BadCredit,
    Creditable,
    CreditedLine,
    CreditedPart,
    of_amount,
    of_lines,
)


@st.composite
def _billed(draw: st.DrawFn) -> list[Creditable]:
    one = st.sampled_from((0, 1, 70_000, 190_000, 999_999))
    shared = st.lists(st.sampled_from((1, 10_000, 72_500)), min_size=2, max_size=4)
    rates = draw(st.lists(one.map(lambda rate: [rate]) | shared, min_size=1, max_size=3))
    bases = [draw(st.integers(0, 10_000)) for _ in rates]
    return [
        Creditable(place, tuple(each), base, taxes_of(base, each))
        for place, (each, base) in enumerate(zip(rates, bases, strict=True), start=1)
    ]


def less(parts: Sequence[Creditable], taken: Sequence[CreditedPart]) -> list[Creditable]:
    by_place = {part.place: part for part in taken}
    return [
        replace(
            part,
            credited_base_cents=part.credited_base_cents + by_place[part.place].base_cents,
            credited_taxes_cents=tuple(
                map(
                    sum,
                    zip(
                        part.credited_taxes_cents or (0,) * len(part.taxes_cents),
                        by_place[part.place].taxes_cents,
                        strict=True,
                    ),
                )
            ),
        )
        if part.place in by_place
        else part
        for part in parts
    ]


def left(parts: Sequence[Creditable]) -> int:
    return sum(part.left_cents for part in parts)


@given(_billed(), st.lists(st.integers(1, 3_000), max_size=6), st.booleans())
def test_credits_take_exactly_their_amount_until_nothing_is_left(
    parts: list[Creditable], amounts: list[int], of_line: bool
) -> None:
    for amount in amounts:
        before = left(parts)
        place = next((each.place for each in parts if each.left_cents), 1)
        try:
            if of_line:
                lines = [CreditedLine(1, place, 0, amount)]
                taken = of_lines(parts, lines, before)
                assert sum(part.base_cents for part in taken) == amount
            else:
                taken = of_amount(parts, amount, before)
                assert sum(part.cents for part in taken) == amount
        except BadCredit:
            assert of_line or amount > before
            continue
        assert all(part.base_cents >= 0 and part.tax_cents >= 0 for part in taken)
        parts = less(parts, taken)
        for part in parts:
            assert part.credited_base_cents <= part.base_cents
            assert part.left_cents >= 0
            due = taxes_of(part.credited_base_cents, part.rates_ppm)
            assert abs(part.credited_tax_cents - sum(due)) <= len(due)
            for taken_back, billed in zip(
                part.credited_taxes_cents, part.taxes_cents, strict=False
            ):
                assert 0 <= taken_back <= billed, "of no jurisdiction above what it has"
    if left(parts):
        parts = less(parts, of_amount(parts, None, left(parts)))
    assert left(parts) == 0
    assert all(part.credited_tax_cents in (0, part.tax_cents) for part in parts)
    with pytest.raises(BadCredit):
        of_amount(parts, 1, left(parts))
    with pytest.raises(BadCredit):
        of_amount(parts, None, 0)
