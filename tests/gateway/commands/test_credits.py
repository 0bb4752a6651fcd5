"""`sluice credits` and `sluice prices`."""

from __future__ import annotations

from billing.prices import versions
from billing.prices.book import Component, PriceRate
from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import Edge

RATES = [
    PriceRate(model="tale", tier="flex", component=part, nanousd_per_mtok=1_500_000_000)
    for part in (Component.INPUT, Component.OUTPUT)
]


async def test_credit_is_given_once_listed_and_voided(sluice: Sluice) -> None:
    give = ("credits", "give", "default", "--amount-usd", "25", "--id", "topup-1")
    made = await sluice.json(*give)
    assert await sluice.json(*give) == made
    assert (made["category"], made["amount_usd"], made["status"]) == ("paid", "25.00", "active")
    table = (await sluice("credits", "list", "--org", "default")).splitlines()
    assert table[1].split()[:4] == ["topup-1", "org_default", "paid", "active"]
    assert (await sluice.json("credits", "void", "topup-1"))["voided_at"] is not None
    for words, expected in (
        (("give", "default", "--amount-usd", "-1"), "an amount is above zero"),
        (("give", "none", "--amount-usd", "1"), "There is no organization 'none'"),
        (("give", "default", "--amount-usd", "1", "--model", "x"), "no model 'x'"),
        (("give", "default", "--amount-usd", "7", "--id", "topup-1"), "topup-1"),
        (("void", "none"), "There is no grant 'none'"),
    ):
        assert expected in await sluice.refused("credits", *words)


async def test_alerts_of_credit_are_set_shown_and_taken_away(sluice: Sluice) -> None:
    alerts = ("credits", "alerts", "default")
    told = await sluice.json(*alerts, "--below-usd", "5", "--below-percent", "50")
    assert (told["below_usd"], told["below_percent"]) == (["5.00"], [50])
    shown = await sluice.json(*alerts)
    assert (shown["below_usd"], shown["below_percent"]) == (["5.00"], [50])
    told = await sluice.json(*alerts, "--none")
    assert (told["below_usd"], told["below_percent"]) == ([], [])
    assert "--none stands alone" in await sluice.refused(
        *alerts, "--none", "--below-usd", "5", status=2
    )


async def test_prices_in_force_are_shown(one: Edge, sluice: Sluice) -> None:
    assert await sluice("prices", "list") == "there are no prices\n"
    assert await sluice.refused("prices", "show") == "Error: no prices are in force"
    versions.amend(one.parts.ledger, RATES, created_by="admin", now_us=1_000_000, note="first")
    assert (await sluice("prices", "list")).splitlines()[1].split()[1] == "active"
    lines = (await sluice("prices", "show", "--model", "tale")).splitlines()
    assert lines[2].split()[:5] == ["tale", "flex", "no", "input", "1.50"]
    assert "there are no rates" in await sluice("prices", "show", "--model", "none")
    version = lines[0].split()[1].rstrip(",")
    assert (await sluice.json("prices", "show", version))["id"] == version
    assert "none" in await sluice.refused("prices", "show", "none")
