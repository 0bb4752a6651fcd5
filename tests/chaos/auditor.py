"""An independent auditor: it knows what clients were told, and says what may have been charged.

It shares no code with the product. Prices are the plan's, amounts are fractions rounded once a
component, SQL is asked by the plain drivers in statements of its own, and every sum is made here
from the rows themselves. What it is not told (an answer that died on its way) it bounds from both
sides: by the last checkpoint that must have been made, and by what there was to generate.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import sha256
from typing import Any

import psycopg

from tests.chaos import plan
from tests.chaos.plan import Ending, PlannedCall, planned

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
REVENUE = "revenue:usage"
SAID_MAX = 12


@dataclass
class Heard:
    """What the client of one call was told, in the order in which it was."""

    admitted: bool = False
    frames: int = 0
    whole: tuple[int, int] | None = None
    """Of a whole answer the pieces it had, and the cost it was told."""
    failed: tuple[int, str, int] | None = None
    left: bool = False


@dataclass
class Client:
    """All clients of a run."""

    seed: int
    calls: dict[str, Heard] = field(default_factory=lambda: defaultdict(Heard))

    def hear(self, words: Sequence[Any]) -> None:
        kind, rid, *rest = words
        heard = self.calls[rid]
        if kind == "admitted":
            heard.admitted = True
        elif kind == "frame":
            (heard.frames,) = rest
        elif kind == "whole":
            pieces, cost = rest
            heard.whole = pieces, cost
        elif kind == "failed":
            status, code, charged = rest
            heard.failed = status, code, charged
        elif kind == "left":
            heard.left = True


@dataclass(frozen=True)
class Books:
    """The rows of the ledger, as the drivers give them."""

    events: dict[str, dict[str, Any]]
    corrections: dict[str, list[dict[str, Any]]]
    transfers: list[dict[str, Any]]
    accounts: dict[str, tuple[int, int]]
    hours: list[dict[str, Any]]
    days: list[dict[str, Any]]
    open_holds: list[str]
    letters: list[tuple[str, str]]
    digest: str

    def best(self, rid: str) -> dict[str, Any] | None:
        later = self.corrections.get(rid)
        return later[-1] if later else self.events.get(rid)


class Auditor:
    grants: Sequence[plan.PlannedGrant] = plan.GRANTS

    def __init__(self, sql_url: str, client: Client) -> None:
        self._url = sql_url
        self._client = client

    # --- reading ---------------------------------------------------------------------------------

    def read(self) -> Books:
        """One snapshot."""
        connection = self._connect()
        try:
            rows = {name: _rows(connection, name) for name in TABLES}
        finally:
            connection.close()
        corrections: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for row in sorted(rows["usage_correction"], key=lambda row: int(row["n"])):
            corrections[row["rid"]].append(row)
        return Books(
            events={row["rid"]: row for row in rows["usage_event"]},
            corrections=dict(corrections),
            transfers=rows["transfer"],
            accounts={r["code"]: (int(r["debits"]), int(r["credits"])) for r in rows["account"]},
            hours=rows["usage_hour"],
            days=rows["usage_day"],
            open_holds=[row["rid"] for row in rows["open_hold"]],
            letters=[(row["rid"], row["reason"]) for row in rows["dead_letter"]],
            digest=_digest(rows),
        )

    def rows(self, table: str) -> list[dict[str, Any]]:
        connection = self._connect()
        try:
            return _rows(connection, table)
        finally:
            connection.close()

    def attempts(self) -> dict[str, list[tuple[str, int]]]:
        """Outcome and output of every try of every call, in order."""
        found: dict[str, list[tuple[str, int]]] = defaultdict(list)
        for row in sorted(self.rows("attempt"), key=lambda row: int(row["n"])):
            found[row["rid"]].append((row["outcome"], int(row["output"])))
        return found

    def _connect(self) -> Any:
        if self._url.startswith("sqlite:///"):
            connection = sqlite3.connect(self._url.removeprefix("sqlite:///"), timeout=10)
            connection.isolation_level = None
            connection.execute("BEGIN")
            return connection
        found = psycopg.connect(self._url.replace("+psycopg", ""), connect_timeout=5)
        found.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        return found

    # --- judging ---------------------------------------------------------------------------------

    def breaks(self, books: Books, *, poisoned: Iterable[str] = ()) -> list[str]:
        """Everything that should not be so; nothing, if every law holds."""
        found = [*self._calls(books), *sums_differ(books)]
        found += [*hours_differ(books), *days_differ(books), *credits_differ(books, self.grants)]
        found += self.overspent(books)
        found += [f"{rid} is still open" for rid in books.open_holds]
        letters = Counter(rid for rid, _ in books.letters)
        if unexpected := letters - Counter(set(poisoned)):
            found.append(f"dead letters {unexpected}: {books.letters}")
        return found[:SAID_MAX]

    def spent(self, books: Books) -> dict[str, int]:
        """Nano-USD by scope, from the best record of every call and who made it."""
        found: Counter[str] = Counter()
        for rid in books.events:
            best = books.best(rid)
            assert best is not None
            for scope in (f"key:{best['key']}", f"project:{best['project']}", f"org:{best['org']}"):
                found[scope] += int(best["amount_nanousd"])
        return {scope: amount for scope, amount in found.items() if amount}

    def overspent(self, books: Books) -> Iterable[str]:
        """Who has a budget stays within it, and who is prepaid owes nothing."""
        poor = self.spent(books).get(f"key:key_{plan.POOR}", 0)
        if poor > plan.POOR_BUDGET_NANOUSD:
            yield f"{plan.POOR} has spent {poor} of {plan.POOR_BUDGET_NANOUSD}"
        debits, credits = books.accounts.get(f"org:{plan.PREPAID}:unbilled", (0, 0))
        if debits != credits:
            yield f"{plan.PREPAID} is prepaid and owes {debits - credits}"

    def _calls(self, books: Books) -> Iterable[str]:
        nets = nets_of(books)
        for rid, heard in self._client.calls.items():
            wanted = planned(self._client.seed, rid)
            if why := self._wrong(wanted, heard, books, nets.get(rid, 0)):
                yield f"{rid}: {why} ({heard}, {wanted.ending})"
        for rid in books.events.keys() - self._client.calls.keys():
            yield f"{rid} was never asked for"

    def _wrong(self, wanted: PlannedCall, heard: Heard, books: Books, net: int) -> str | None:
        best = books.best(wanted.rid)
        if best is None:
            if net:
                return f"{net} without an event"
            told = heard.admitted or heard.whole or heard.frames
            return "admitted, and nothing is on record" if told else None
        used = (int(best["input"]), int(best["cached_input"]), int(best["output"]))
        if net != int(best["amount_nanousd"]):
            return f"nets to {net}, its best record says {best['amount_nanousd']}"
        if net != charge(wanted.model, used):
            return f"{used} costs {charge(wanted.model, used)}, charged {net}"
        if (best["org"], best["model"], best["tier"]) != (wanted.org, wanted.model, wanted.tier):
            return f"belongs to {best['org']} {best['model']} {best['tier']}"
        if heard.whole:
            pieces, told = heard.whole
            exact = best["source"] == "exact" and best["status"] == "answered"
            owed = used_after(wanted, pieces)
            if not exact or used != owed or told != charge(wanted.model, owed):
                return f"{owed} was heard and {told} told, on record is {used} {net} {best}"
            return None
        if heard.failed:
            told = heard.failed[2]
            owed = used_after(wanted, heard.frames if wanted.stream else 0)
            due = charge(wanted.model, owed)
            return None if net == told == due else f"{due} is due, {told} was told, charged {net}"
        return self._wrong_cut(wanted, heard, used, net)

    def _wrong_cut(
        self, wanted: PlannedCall, heard: Heard, used: tuple[int, int, int], net: int
    ) -> str | None:
        """Left, or died with its gateway: between the last checkpoint and what was generated."""
        if any(used) and used[:2] != (wanted.prompt - wanted.cached, wanted.cached):
            return f"{used} on record for a prompt of {wanted.prompt}, {wanted.cached} cached"
        allowed = set(_outputs(wanted, heard))
        if used[2] not in allowed:
            return f"{used[2]} tokens on record, allowed are {sorted(allowed)}"
        return None


def _outputs(wanted: PlannedCall, heard: Heard) -> Iterable[int]:
    """What may be on record of a call that ended otherwise than its client was told."""
    if not wanted.stream:
        may_stop = wanted.ending is Ending.LEFT or wanted.org in (plan.POOR, plan.PREPAID)
        places = range(len(wanted.frames) + 1) if may_stop else (0, len(wanted.frames))
        return [wanted.output_after(place) for place in places]
    checkpoint = heard.frames - heard.frames % plan.CHECKPOINT_EVERY
    least = heard.frames if heard.left else checkpoint
    return [wanted.output_after(place) for place in range(least, heard.frames + 2)]


def used_after(wanted: PlannedCall, pieces: int) -> tuple[int, int, int]:
    """By the plan: what an answer that came so far has used; nothing, if nothing came."""
    if not pieces:
        return 0, 0, 0
    return wanted.prompt - wanted.cached, wanted.cached, wanted.output_after(pieces)


def charge(model: str, used: tuple[int, int, int]) -> int:
    """Nano-USD: each component rounded once, half to even; what used nothing is free."""
    if not any(used):
        return 0
    units = dict(zip(("input", "cached_input", "output"), used, strict=True)) | {"request": 1}
    return sum(
        round(Fraction(count * plan.PRICES[model, component], 1_000_000))
        for component, count in units.items()
    )


def nets_of(books: Books) -> dict[str, int]:
    """What each call has brought in, by the account that revenue is."""
    found: Counter[str] = Counter()
    for row in books.transfers:
        if row["rid"] is not None:
            amount = int(row["amount_nanousd"])
            found[row["rid"]] += amount * (row["credit_account"] == REVENUE)
            found[row["rid"]] -= amount * (row["debit_account"] == REVENUE)
    return dict(found)


def sums_differ(books: Books) -> Iterable[str]:
    debits: Counter[str] = Counter()
    credits: Counter[str] = Counter()
    reversed_once: Counter[str] = Counter()
    for row in books.transfers:
        debits[row["debit_account"]] += int(row["amount_nanousd"])
        credits[row["credit_account"]] += int(row["amount_nanousd"])
        if row["reverses_id"]:
            reversed_once[row["reverses_id"]] += 1
        if int(row["amount_nanousd"]) <= 0:
            yield f"{row['transfer_id']} moves {row['amount_nanousd']}"
    for code in {*debits, *credits, *books.accounts}:
        made = (debits[code], credits[code])
        if books.accounts.get(code, (0, 0)) != made:
            yield f"account {code} says {books.accounts.get(code)}, its transfers {made}"
    if sum(d for d, _ in books.accounts.values()) != sum(c for _, c in books.accounts.values()):
        yield "debits are not credits"
    yield from (f"{name} was reversed {n} times" for name, n in reversed_once.items() if n > 1)


def credits_differ(books: Books, grants: Iterable[plan.PlannedGrant]) -> Iterable[str]:
    """No grant pays more than it has, or for what it is not for, or more than a call costs."""
    nets = nets_of(books)
    burned: Counter[str] = Counter()
    for row in books.transfers:
        for account, sign in ((row["debit_account"], 1), (row["credit_account"], -1)):
            org, _, grant = account.partition(":grant:")
            if grant and row["rid"] is not None:
                amount = sign * int(row["amount_nanousd"])
                burned[grant] += amount
                burned[row["rid"]] += amount
                best = books.best(row["rid"])
                if best is None or f"org:{best['org']}" != org:
                    yield f"{grant} of {org} pays for {row['rid']}"
    for planned_grant in grants:
        if not 0 <= burned.pop(planned_grant.name, 0) <= planned_grant.amount:
            yield f"{planned_grant.name} has paid more than its {planned_grant.amount}"
    for rid, paid in burned.items():
        if not 0 <= paid <= nets.get(rid, 0):
            yield f"{rid} costs {nets.get(rid, 0)}, and {paid} of it is paid"


SUMMED = ("input", "cached_input", "output", "amount_nanousd")
GROUPED = ("org", "project", "key", "model", "tier", "pool", "status")


def hours_differ(books: Books) -> Iterable[str]:
    expected: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * 5)
    for rid, first in books.events.items():
        best = books.best(rid)
        assert best is not None
        hour = int(first["ended_us"]) // HOUR_US * HOUR_US
        sums = expected[hour, *(best[name] for name in GROUPED)]
        counted = (1, *(int(best[name]) for name in SUMMED))
        sums[:] = [a + b for a, b in zip(sums, counted, strict=True)]
    yield from _differences("hour", expected, _cells(books.hours, "hour_us"))


def days_differ(books: Books) -> Iterable[str]:
    expected: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * 5)
    for (hour, *group), counted in _cells(books.hours, "hour_us").items():
        sums = expected[hour // DAY_US * DAY_US, *group]
        sums[:] = [a + b for a, b in zip(sums, counted, strict=True)]
    yield from _differences("day", expected, _cells(books.days, "day_us"))


def _cells(rows: Iterable[dict[str, Any]], begins: str) -> dict[tuple[Any, ...], list[int]]:
    found: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * 5)
    for row in rows:
        sums = found[int(row[begins]), *(row[name] for name in GROUPED)]
        counted = [int(row[name]) for name in ("requests", *SUMMED)]
        sums[:] = [a + b for a, b in zip(sums, counted, strict=True)]
    return found


def _differences(
    what: str, expected: dict[tuple[Any, ...], list[int]], found: dict[tuple[Any, ...], list[int]]
) -> Iterable[str]:
    for cell in {*expected, *found}:
        wanted, there = expected.get(cell, [0] * 5), found.get(cell, [0] * 5)
        if wanted != there:
            yield f"{what} {cell} sums {there}, its calls {wanted}"


TABLES = (
    *("usage_event", "usage_correction", "transfer", "account", "usage_hour", "usage_day"),
    *("open_hold", "dead_letter"),
)
KEPT = TABLES[:6]
"""What no replay may change by a byte."""


def _rows(connection: Any, table: str) -> list[dict[str, Any]]:
    cursor = connection.execute(f"SELECT * FROM {table}")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _digest(rows: dict[str, list[dict[str, Any]]]) -> str:
    kept = sha256()
    for table in KEPT:
        for line in sorted(repr(sorted(row.items())) for row in rows[table]):
            kept.update(f"{table} {line}\n".encode())
    return kept.hexdigest()
