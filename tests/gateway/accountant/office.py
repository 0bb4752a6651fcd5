"""The office of an administrator: what the API is asked for and says, and nothing but that."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from billing.periods import period
from tests.billing.invoices.test_invoices import caught_up
from tests.gateway.accountant.invoices import Evidence, Line, Reckoned, Sum
from tests.gateway.accountant.prices import Json, nano
from tests.gateway.api.asgi import answer
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, ORGANIZATION_ID, Edge


class Office:
    """A gateway and an instant at which an administrator works there."""

    def __init__(self, one: Edge) -> None:
        self.one = one

    def at(self, at_us: int) -> None:
        self.one.watch.stands_at_s = at_us / 1e6

    async def asked(self, method: str, path: str, sent: Any = None, key: str = "admin") -> Any:
        raw = b"" if sent is None else json.dumps(sent).encode()
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        found = await answer(self.one.app, method, path, raw, headers=headers)
        assert found.status < 300, (path, found.body)
        assert_described(self.one.app, method, path, found.status, found.json)
        return found.json

    async def admin(self, method: str, path: str, sent: Any = None) -> Any:
        return await self.asked(method, f"/admin/v1/{path}", sent)

    async def rows(self, path: str, key: str = "admin", limit: int = 97) -> list[Any]:
        """All pages of a list."""
        rows, after = [], ""
        while after is not None:
            mark = "&" if "?" in path else "?"
            page = await self.asked("GET", f"{path}{mark}limit={limit}{after}", key=key)
            rows += page["data"]
            after = page["after"] and f"&after={page['after']}"
        return rows


async def issue(office: Office, month: str, at_us: int) -> Json:
    office.at(at_us)
    caught_up(office.one.parts.ledger, at_us)
    await office.admin("POST", f"invoices?period={month}")
    (invoice,) = await office.rows(f"/admin/v1/invoices?period={month}&lines=true")
    assert invoice["number"] and invoice["status"] == "open", invoice
    return dict(invoice)


async def gathered(office: Office, issued: Mapping[str, Json]) -> Evidence:
    """What the API says of the months of these invoices."""
    first, last = period(min(issued)), period(max(issued))
    within = f"from={first.start_us // 1_000_000}&to={last.end_us // 1_000_000}"
    calls = await office.rows(f"/v1/generations?{within}", key=API_KEY)
    explained = {
        call["id"]: await office.asked("GET", f"/v1/generations/{call['id']}", key=API_KEY)
        for call in calls
        if call["corrections"]
    }
    transfers = f"/admin/v1/ledger/transfers?organization={ORGANIZATION_ID}"
    instants = {month: _iso(invoice["computed_us"]) for month, invoice in issued.items()}
    own = f"organizations/{ORGANIZATION_ID}"
    return Evidence(
        organization=ORGANIZATION_ID,
        calls=calls,
        explained=explained,
        prices=await office.rows("/admin/v1/prices"),
        terms=(await office.admin("GET", f"{own}/terms"))["terms"],
        transfers=await office.rows(transfers, limit=1000),
        grants=await office.rows("/admin/v1/credits"),
        seller=await office.admin("GET", "sellers/main"),
        profile=await office.admin("GET", f"{own}/billing-profile"),
        rules=await office.rows("/admin/v1/tax-rules"),
        issued=instants,
    )


def assert_same(invoice: Json, again: Reckoned) -> None:
    """What was issued is what the accountant has reckoned, to the cent."""
    assert lines_of(invoice) == again.lines
    assert invoice["total_cents"] == again.total_cents
    taxes = {
        (tax["category"], tax["rate"], tax["jurisdiction"]): (tax["base_cents"], tax["tax_cents"])
        for tax in invoice["taxes"]
    }
    assert taxes == again.taxes


def lines_of(invoice: Json) -> dict[Line, Sum]:
    """In their order."""
    return {
        Line(
            *(line["kind"], _iso(line["service_start_us"])[:7], line["project"], line["model"]),
            *(line["service_tier"], line["batch"], line["component"], line["price_version"]),
            nano(line["unit_price_usd_per_million"]),
            *(line["grant"], line["term"], line["simulated"]),
        ): Sum(line["quantity"], nano(line["amount_usd"]), line["transfers"])
        for line in invoice["lines"]
    }


def _iso(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).isoformat()
