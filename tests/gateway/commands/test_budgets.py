"""`sluice budget`: made, listed, changed and ended, by id and by the scope that has one."""

from __future__ import annotations

import pytest

from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import Edge, body


@pytest.fixture
async def tenant(sluice: Sluice) -> str:
    """The key's secret."""
    await sluice("org", "create", "Reed")
    await sluice("project", "create", "web", "--org", "reed")
    return await sluice.quiet("key", "create", "first", "--project", "reed/web")


async def test_budget_of_a_scope_is_set_shown_changed_and_deleted(
    sluice: Sluice, tenant: str
) -> None:
    made = await sluice.json("budget", "set", "project:reed/web", "--limit-usd", "5")
    assert (made["limit_usd"], made["window"]) == ("5.00", "month")
    assert await sluice.json("budget", "show", "project:reed/web") == made
    assert await sluice.json("budget", "show", made["scope"]) == made
    listed = (await sluice.json("budget", "list", "--org", "reed"))["data"]
    assert [row["scope"] for row in listed] == [made["scope"]]
    changed = await sluice.json("budget", "set", "project:reed/web", "--limit-usd", "0.5")
    assert (changed["limit_usd"], changed["window"]) == ("0.50", "month")
    await sluice("budget", "delete", "project:reed/web")
    assert await sluice("budget", "list", "--org", "reed") == "there are no budgets\n"
    wrong = await sluice.refused("budget", "delete", "project:reed/web")
    assert wrong.endswith("has no budget of its own.")


async def test_exceeded_budget_refuses_the_key_until_it_is_raised(
    one: Edge, sluice: Sluice
) -> None:
    made = await sluice.json(
        *("budget", "create", "org:default", "--limit-usd", "0.0001", "--window", "day"),
        *("--alert", "50", "--alert", "90"),
    )
    assert (made["hard"], made["alerts"], made["name"]) == (True, [50, 90], "day")
    refused = await one.post(body())
    assert (refused.status, refused.error_code) == (429, "insufficient_quota")
    table = (await sluice("budget", "list", "--org", "default")).splitlines()
    assert table[1].split()[0] == made["id"]
    raised = await sluice.json("budget", "set", made["id"], "--limit-usd", "5", "--name", "more")
    assert (raised["limit_usd"], raised["name"], raised["alerts"]) == ("5.00", "more", [50, 90])
    assert (await one.post(body())).status == 200
    assert "spent_usd" in await sluice("budget", "show", made["id"])
    await sluice("budget", "delete", made["id"])
    assert (await sluice.json("budget", "list", "--org", "default"))["data"] == []


async def test_window_of_a_budget_has_its_clock(sluice: Sluice, tenant: str) -> None:
    made = await sluice.json(
        *("budget", "create", "org:reed/user:*", "--limit-usd", "1", "--window", "rolling"),
        *("--seconds", "3600", "--soft"),
    )
    assert made["window"] == {"kind": "rolling", "seconds": 3600}
    assert (made["hard"], made["scope"].endswith("/user:*")) == (False, True)
    of_ann = await sluice.json("budget", "show", made["id"], "--user", "ann")
    assert of_ann["state"]["spent_usd"] == "0.00"
    made = await sluice.json(
        *("budget", "create", "org:reed", "--limit-usd", "1", "--window", "week"),
        *("--time-zone", "Europe/Berlin"),
    )
    assert made["window"]["time_zone"] == "Europe/Berlin"
    assert "last 3600 s" in await sluice("budget", "list")
    assert "week Europe/Berlin" in await sluice("budget", "list")
    assert "week Europe/Berlin" in await sluice("budget", "show", made["id"])
    wrong = await sluice.refused("budget", "show", "org:reed")
    assert f"Name one by its id: {made['id']}." in wrong
    assert await sluice("budget", "alerts", "--org", "reed") == "there are no alerts\n"


WRONG = (
    (("create", "org:reed", "--limit-usd", "much"), 1, "limit_usd"),
    (("create", "org:none", "--limit-usd", "1"), 1, "There is no organization 'none'"),
    (("create", "reed", "--limit-usd", "1"), 1, "'reed' is no scope"),
    (("create", "org:reed"), 2, "--limit-usd"),
    (("create", "org:reed", "--limit-usd", "1", "--window", "rolling"), 2, "--seconds"),
    (("create", "org:reed", "--limit-usd", "1", "--seconds", "60"), 2, "--seconds"),
    (("create", "org:reed", "--limit-usd", "1", "--time-zone", "Mars/Base"), 1, "window"),
    (("create", "org:reed", "--limit-usd", "1", "--alert", "0"), 1, "alerts.0"),
    (("set", "org:reed"), 2, "--limit-usd"),
    (("set", "org:reed", "--limit-usd", "1", "--alert", "9"), 2, "--limit-usd and --window"),
    (("set", "bud_1", "--window", "month"), 2, "make another budget"),
    (("set", "bud_1"), 2, "say what to change"),
    (("set", "bud_1", "--limit-usd", "1"), 1, "There is no 'bud_1'"),
    (("show", "bud_1"), 1, "There is no 'bud_1'"),
    (("delete", "bud_1"), 1, "There is no 'bud_1'"),
    (("delete", "alerts"), 1, "DELETE"),
)


async def test_wrong_budget_is_refused_with_the_field_that_is_wrong(
    sluice: Sluice, tenant: str
) -> None:
    for words, status, expected in WRONG:
        assert expected in await sluice.refused("budget", *words, status=status)
    assert await sluice("budget", "list", "--org", "reed") == "there are no budgets\n"
