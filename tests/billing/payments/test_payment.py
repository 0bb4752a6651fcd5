"""Laws of what is due, and rows of a bank's file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.payments.bank_file import BadBankFile, bank_rows
from billing.payments.payment import applied_cents, due

CENTS = st.integers(-(10**12), 10**12)
HEAD = "date,amount,currency,text\n"


@settings(max_examples=30)
@given(CENTS, CENTS, CENTS)
def test_paid_due_and_credited_sum_to_what_is_payable(payable: int, paid: int, credit: int) -> None:
    assert paid + credit + due(payable, paid=paid, credited=credit) == payable


@settings(max_examples=30)
@given(st.lists(st.integers(1, 10**12), max_size=5), CENTS)
def test_an_invoice_never_takes_more_than_is_due(amounts: list[int], payable: int) -> None:
    paid = 0
    for amount in amounts:
        took = applied_cents(amount, due(payable, paid=paid))
        assert 0 <= took <= amount
        paid += took
    assert paid == max(0, min(sum(amounts), payable))


@settings(max_examples=30)
@given(st.lists(st.sampled_from(["2026-11-05,1.00,USD,a", "2026-11-06,2.00,USD,a"]), max_size=5))
def test_rows_of_a_file_are_known_again_in_a_longer_one(lines: list[str]) -> None:
    digests = [
        [row.digest for row in bank_rows(HEAD + "\n".join(lines[:count]))]
        for count in range(len(lines) + 1)
    ]
    whole = digests[-1]
    assert len(set(whole)) == len(whole)
    assert all(whole[: len(part)] == part for part in digests)


@pytest.mark.parametrize(
    ("amount", "cents", "problem"),
    [
        ("118.50", 11850, ""),
        ('"1.234,5"', 123450, ""),
        ('"1,234.50"', 123450, ""),
        ("7", 700, ""),
        ("-7", 0, "no money came"),
        ("1.005", 0, "its amount is not in whole cents"),
        ("NaN", 0, "its amount is not in whole cents"),
        ("1e99", 0, "its amount is not in whole cents"),
        ("=1+1", 0, "its amount is no number"),
    ],
)
def test_amounts_of_banks(amount: str, cents: int, problem: str) -> None:
    (row,) = bank_rows(f"{HEAD}2026-11-05,{amount},USD,thanks slu-2026-000001\n")
    assert (row.amount_cents, row.problem) == (cents, problem)
    assert row.numbers == (() if problem else ("SLU-2026-000001",))


def test_semicolons_other_columns_and_a_mark_of_byte_order_are_read() -> None:
    (row,) = bank_rows("\ufeffAmount;Bank;Text;Date\n1,5;x;EU-2026-1000000 a;2026-11-05\n\n")
    assert (row.amount_cents, row.numbers) == (150, ("EU-2026-1000000",))
    (row,) = bank_rows(HEAD + "yesterday,1,USD,a\n")
    assert row.problem


def test_what_is_no_table_is_refused() -> None:
    for text in ("", "a,b\n", 'date,amount,text\n"' + "a" * 200_000):
        with pytest.raises(BadBankFile):
            bank_rows(text)
