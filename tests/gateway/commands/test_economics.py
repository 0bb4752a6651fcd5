"""`sluice economics`: figures without a running Sluice, and offers of one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from billing.ledger import booking
from billing.ledger.booking import Record
from billing.types import encode
from gateway.cli import main
from tests.gateway.admin.test_usage import BOOK, CALLS
from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import Edge


def told(*words: str) -> str:
    done = CliRunner().invoke(main, ["economics", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_json_has_figures_and_flags() -> None:
    answer: dict[str, Any] = json.loads(told("--json"))
    figures = {row["id"]: row for row in answer["figures"]}
    assert set(figures["breakeven.months"]) == {"id", "value", "unit", "from", "source"}
    assert abs(figures["decode.70b.h100"]["value"] - 47.9) < 0.1
    assert [set(flag) for flag in answer["flags"]] == [{"id", "claim", "why"}] * 3


def test_table_has_a_line_for_each_figure_and_names_the_claims() -> None:
    lines = told()
    assert "margin.b200.high" in lines and "l40s_2_3x" in lines


async def test_offers_of_a_traffic_that_is_given(sluice: Sluice) -> None:
    traffic = ("--requests-per-day", "100000", "--input-tokens", "500", "--output-tokens", "200")
    answer = await sluice.json("economics", "--model", "tale", *traffic)
    assert [each["offer"] for each in answer["offers"]] == ["serverless", "dedicated", "bare_metal"]
    by_offer = {each["offer"]: each["usd_month"] for each in answer["offers"]}
    assert answer["cheapest"] == min(by_offer, key=by_offer.__getitem__)
    assert {"from", "to", "requests_per_day"} == set(answer["break_even"][0])
    lines = await sluice("economics", "--model", "tale", *traffic)
    assert "tale: 100,000 requests a day of 500 tokens in and 200 out" in lines
    assert f"cheapest: {answer['cheapest']}" in lines


async def test_half_a_traffic_an_unknown_model_and_no_calls_are_refused(sluice: Sluice) -> None:
    half = ("economics", "--model", "tale", "--requests-per-day", "5")
    assert "input_tokens" in await sluice.refused(*half)
    assert "ghost" in await sluice.refused("economics", "--model", "ghost")
    assert "no calls in this time" in await sluice.refused("economics", "--model", "tale")
    assert "--model" in await sluice.refused("economics", "--peak", "2", status=2)


async def test_offers_of_calls_that_were_measured(one: Edge, sluice: Sluice) -> None:
    """The calls ended at one instant: the busiest hour has all of a day's."""
    at_us = round(one.parts.outside.clock() * 1e6)
    call = replace(CALLS[0], model="tale", ended_us=at_us)
    records = [Record(0, "0-0", "settled", call.rid, encode(call))]
    with one.parts.ledger.write() as conn:
        booking.book(conn, booking.read(records, BOOK, at_us))
    answer = await sluice.json("economics", "--model", "tale", "--since", "24h")
    assert answer["traffic"]["requests_per_day"] == pytest.approx(1)
    assert answer["traffic"]["peak"] == pytest.approx(24)
    assert answer["cheapest"] == "serverless"
