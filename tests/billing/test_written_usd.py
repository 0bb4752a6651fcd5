"""Money is written in USD, exact to the nano-USD; its names of before are read, with a notice."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from billing.money import usd
from billing.written_usd import COST_NANOUSD_MAX, CostUsd, WrittenUsd, notices

AMOUNTS = st.integers(0, COST_NANOUSD_MAX)


class Pool(WrittenUsd):
    cost_nanousd_per_s: CostUsd = 0


def read(**given: Any) -> int:
    return Pool.model_validate(given).cost_nanousd_per_s


@given(AMOUNTS)
def test_whatever_is_written_is_read_to_the_last_nano_usd(amount: int) -> None:
    assert read(cost_usd_per_s=usd(amount)) == amount
    assert read(cost_nanousd_per_s=amount) == amount
    assert read(cost_nanousd_per_s=str(amount)) == amount, "a variable is text"


@given(AMOUNTS)
def test_notice_says_what_to_write_instead(amount: int) -> None:
    [said] = notices({"pools": [{"name": "p"}, {"cost_nanousd_per_s": amount}]})
    name, _, text = said.partition(": write ")[2].partition(" = ")
    assert said.startswith("pools.1.cost_nanousd_per_s is a name of before")
    assert read(**{name: text.strip('"')}) == amount


@pytest.mark.parametrize(
    ("given", "place", "words"),
    [
        ({"cost_usd_per_s": "0.0000000001"}, "cost_usd_per_s", "finer than a nano-dollar: '0.00"),
        ({"cost_usd_per_s": "lots"}, "cost_usd_per_s", "not an amount in USD: 'lots'"),
        ({"cost_usd_per_s": "-1"}, "cost_usd_per_s", "-1 is not between 0 and 10000.00 USD"),
        ({"cost_usd_per_s": "10000.01"}, "cost_usd_per_s", "is not between 0 and 10000.00 USD"),
        ({"cost_usd_per_s": "NaN"}, "cost_usd_per_s", "not an amount in USD"),
        ({"cost_usd_per_s": 0.5}, "cost_usd_per_s", 'as text, for example "0.00002"'),
        ({"cost_usd_per_s": True}, "cost_usd_per_s", 'as text, for example "0.00002"'),
        ({"cost_nanousd_per_s": -5}, "cost_usd_per_s", "is not between 0 and"),
        ({"cost_nanousd_per_s": 1.5}, "", "cost_nanousd_per_s is a whole number of nano-USD"),
        ({"cost_nanousd_per_s": True}, "", "write cost_usd_per_s in USD"),
        ({"cost_nanousd_per_s": 5, "cost_usd_per_s": "1"}, "", "leave out cost_nanousd_per_s"),
    ],
)
def test_what_is_no_amount_is_refused_at_its_name(
    given: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        Pool.model_validate(given)
    [error] = refused.value.errors()
    assert ".".join(map(str, error["loc"])) == place
    assert words in error["msg"]


def test_schema_tells_what_is_written() -> None:
    [(name, schema)] = Pool.model_json_schema()["properties"].items()
    assert (name, schema["type"]) == ("cost_usd_per_s", "string")
