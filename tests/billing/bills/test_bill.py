"""A provider's bill as it is read, and what it differs by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.bills.bill import BadBill, BookedUsage, differences, read_bill, span_of
from billing.money import usd

HEAD = "day,model,usage_class,quantity,amount\n"
CELLS = st.tuples(st.sampled_from(["2026-11-01", "2026-11-02"]), st.sampled_from("mn"))
AMOUNTS = st.integers(-(10**12), 10**12)
LINES = st.lists(st.tuples(CELLS, st.sampled_from(["input", "output"]), AMOUNTS), min_size=1)


def written(lines: list[tuple[tuple[str, str], str, int]]) -> str:
    rows = [f"{day},{model},{name},1,{usd(amount)}" for (day, model), name, amount in lines]
    return HEAD + "\n".join(rows)


@given(LINES, st.dictionaries(CELLS, AMOUNTS), st.dictionaries(CELLS, AMOUNTS))
def test_booked_posted_and_the_variance_are_the_bill_to_the_nano_dollar(
    lines: list[tuple[tuple[str, str], str, int]],
    booked: dict[tuple[str, str], int],
    posted: dict[tuple[str, str], int],
) -> None:
    bill = read_bill(written(lines))
    found = differences(bill, {cell: BookedUsage(n) for cell, n in booked.items()}, posted)
    assert [(each.day, each.model) for each in found] == sorted({*bill, *booked, *posted})
    for each in found:
        cell = each.day, each.model
        billed = sum(amount for at, _, amount in lines if at == cell)
        assert each.billed_nanousd == billed == sum(part.billed_nanousd for part in each.classes)
        assert booked.get(cell, 0) + posted.get(cell, 0) + each.variance_nanousd == billed


def test_quantities_stand_beside_each_other() -> None:
    text = "\ufeffModel,Day,Usage Class,Amount,Quantity\nm,2026-11-01,input,0.5,12.50\n\n"
    bill = read_bill(text)
    assert span_of(bill) == ("2026-11-01", "2026-11-01")
    booked = {("2026-11-01", "m"): BookedUsage(1, {"input": 12, "output": 3, "cache_write": 0})}
    (found,) = differences(bill, booked, {})
    assert [each[:3] for each in found.classes] == [("input", "12.5", "12"), ("output", "0", "3")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1: a bill has the columns"),
        ("day,model,quantity,amount\n", "line 1: a bill has the columns"),
        (HEAD, "line 1: the bill has no lines"),
        (f"{HEAD}2026-11-01,m,input,1", "line 2: 4 cells under 5 columns"),
        (f"{HEAD}2026-13-01,m,input,1,1", "line 2: '2026-13-01' is no day"),
        (f"{HEAD}2026-11-01,,input,1,1", "line 2: model is empty"),
        (f"{HEAD}2026-11-01,m,input,-1,1", "line 2: '-1' is no quantity"),
        (f"{HEAD}2026-11-01,m,input,nan,1", "line 2: 'nan' is no quantity"),
        (f"{HEAD}2026-11-01,m,input,1,0.0000000001", "line 2: finer than a nano-dollar"),
        (f"{HEAD}2026-11-01,m,input,1,$1", "line 2: not an amount in USD"),
        (f'{HEAD}2026-11-01,"m,input,1,1', "unexpected end of data"),
        (f"{HEAD}2024-11-01,m,input,1,1\n2026-11-01,m,input,1,1", "are more than 366 days"),
    ],
)
def test_what_is_no_bill_is_refused_at_its_line(text: str, words: str) -> None:
    with pytest.raises(BadBill) as refused:
        read_bill(text)
    assert words in str(refused.value)
