"""The books by the admin API and by `sluice books`."""

from __future__ import annotations

from tests.gateway.admin.test_payments import number, one, sluice
from tests.gateway.api.asgi import answer
from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import Edge

__all__ = ["number", "one", "sluice"]
BOOKS = "/admin/v1/books"


async def test_journal_and_receivables(one: Edge, sluice: Sluice, number: str) -> None:
    headers = {"authorization": "Bearer admin"}
    table = await answer(one.app, "GET", f"{BOOKS}/journal.csv?period=2026-11", headers=headers)
    assert table.status == 200 and b"Assets:Receivable" in table.body
    printed = await sluice("books", "journal", "--period", "2026-11")
    assert printed.splitlines() == table.body.decode().splitlines()
    file = await sluice("books", "journal", "--period", "2026-11", "--format", "beancount")
    assert "open Assets:Receivable USD" in file
    owed = await sluice.json("books", "receivables")
    assert [row["due_usd"] for row in owed["data"]] != ["0.00"]
    assert "days_over_90_usd".upper() in await sluice("books", "receivables")
    wrong = await answer(one.app, "GET", f"{BOOKS}/journal.csv?period=x", headers=headers)
    assert (wrong.status, wrong.json["error"]["param"]) == (400, "period")
