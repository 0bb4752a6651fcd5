"""The books by the admin API and by `sluice books`."""

from __future__ import annotations

from tests.gateway.admin.test_payments import asked, number, one, sluice
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


async def test_month_is_closed_once_it_has_ended(one: Edge, sluice: Sluice, number: str) -> None:
    closed = await sluice.json("books", "close", "2026-10")
    assert (closed["period"], closed["closed_by"]) == ("2026-10", "admin")
    assert await asked(one, "POST", "/books/periods/2026-10/close", {}) == (200, closed)
    assert (await asked(one, "GET", "/books/periods"))[1]["data"] == [closed]
    assert "2026-10" in await sluice("books", "closed")
    for month, expected in (("2999-01", (409, "period_not_ended")), ("October", (400, None))):
        status, told = await asked(one, "POST", f"/books/periods/{month}/close", {})
        assert (status, told["error"]["code"]) == expected, told
    assert "has not ended" in await sluice.refused("books", "close", "2999-01")
