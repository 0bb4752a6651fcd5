"""What a settled call adds to the ledger: an event or a correction of it, and transfers.

Pure. A first record makes the event and a charge. A better record of an estimated one makes a
correction, a reversal linked to the charge that it undoes, and a charge of its own. So the net of a
request id is that of its best record, in whatever order the records arrive. Guards law 4.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from billing.costs.attempts import AttemptCost, costs_of
from billing.prices.book import PriceBook
from billing.prices.rating import CHARGE_PARTS, Charge, rate_frozen
from billing.types import BudgetShare, Route, SettledCall, UsageSource, utc_month

REVENUE = "revenue:usage"
ROUNDING = "rounding:cents"
CASH = "cash:payments"
CLOCK_SKEW_MAX_US = 5 * 60 * 1_000_000


class Step(StrEnum):
    """What a record does to the ledger, given the record that is there already."""

    FIRST = "first"
    CORRECTION = "correction"
    DUPLICATE = "duplicate"
    SUPERSEDED = "superseded"
    CONFLICT = "conflict"


class LatestRecord(msgspec.Struct, frozen=True):
    """The latest record of a request id: its number, from 1, and its contents."""

    n: int
    source: UsageSource
    payload_sha: bytes
    tokens: int
    amount_nanousd: int


class Posting(msgspec.Struct, frozen=True):
    """Rows to insert for one record. `n` counts the records of the request id from 1.
    `difference_nanousd` is the change of the charge, and budgets count it at `counts_us`."""

    n: int
    usage: dict[str, Any]
    call: dict[str, Any] | None
    """The decision in a record of an older release."""
    attempts: list[dict[str, Any]]
    transfers: list[dict[str, Any]]
    record: LatestRecord
    budgets: list[BudgetShare] = []
    counts_us: int = 0
    difference_nanousd: int = 0
    costs: list[AttemptCost] = []
    idempotency: str | None = None
    """Digest of the key under which the call ran, if it was one that runs once."""


def step_for(call: SettledCall, payload_sha: bytes, latest: LatestRecord | None) -> Step:
    """An exact record supersedes an estimated one, a larger estimate a smaller one."""
    if latest is None:
        return Step.FIRST
    if latest.payload_sha == payload_sha:
        return Step.DUPLICATE
    if call.source == UsageSource.ESTIMATED:
        better = latest.source == UsageSource.ESTIMATED and call.usage.total > latest.tokens
        return Step.CORRECTION if better else Step.SUPERSEDED
    return Step.CORRECTION if latest.source == UsageSource.ESTIMATED else Step.CONFLICT


def charge_for(call: SettledCall, book: PriceBook) -> Charge:
    """The charge of the call's usage at its frozen price version. Raises Unrateable."""
    return rate_frozen(
        book,
        model=call.model,
        tier=call.tier,
        batch=call.batch,
        usage=call.usage,
        price_version=call.price_version,
    )


def posting(
    call: SettledCall, payload_sha: bytes, charge: Charge, latest: LatestRecord | None, now_us: int
) -> Posting:
    """The rows of one record that is FIRST or a CORRECTION."""
    n = latest.n + 1 if latest else 1
    ended_us = min(max(call.ended_us, call.admitted_us), now_us + CLOCK_SKEW_MAX_US)
    transfers = _transfers(call, charge.amount_nanousd, n, latest, ended_us, now_us)
    costs = costs_of(call)
    cost = next((cost.nanousd for cost in costs if cost.served), 0)
    return Posting(
        n=n,
        usage=_usage(call, payload_sha, charge, cost, n, ended_us, now_us),
        call=_decision(call),
        attempts=[_attempt(call, place, cost) for place, cost in enumerate(costs)],
        transfers=transfers,
        record=LatestRecord(n, call.source, payload_sha, call.usage.total, charge.amount_nanousd),
        budgets=call.budgets,
        counts_us=max(call.ended_us, call.admitted_us),
        difference_nanousd=charge.amount_nanousd - (latest.amount_nanousd if latest else 0),
        costs=costs,
        idempotency=call.idempotency or None,
    )


def _decision(call: SettledCall) -> dict[str, Any] | None:
    if call.decision is msgspec.UNSET or not call.decision:
        return None
    return {"rid": call.rid, "decision": msgspec.json.encode(call.decision).decode()}


def _attempt(call: SettledCall, place: int, cost: AttemptCost) -> dict[str, Any]:
    row = msgspec.structs.asdict(call.attempts[place])
    row["rid"], row["n"], row["model"], row["served"] = call.rid, place, cost.model, cost.served
    row["cost_nanousd"], row["bought_nanousd"] = cost.nanousd, cost.bought_nanousd
    return row


def charge_id(rid: str, n: int) -> str:
    return f"{rid}:charge:{n}"


def unbilled(org: str) -> str:
    """The account of what an organization has used and has no invoice for."""
    return f"org:{org}:unbilled"


def receivable(org: str) -> str:
    """The account of what an organization owes by its invoices."""
    return f"org:{org}:receivable"


def on_account(org: str) -> str:
    """The account of what an organization has paid and no invoice has taken."""
    return f"org:{org}:on_account"


def transfer(
    transfer_id: str, kind: str, debit: str, credit: str, amount_nanousd: int, **more: Any
) -> dict[str, Any]:
    """One row. `more` has org, booked_us, created_us and further columns."""
    return {
        "transfer_id": transfer_id,
        "kind": kind,
        "debit_account": debit,
        "credit_account": credit,
        "amount_nanousd": amount_nanousd,
        "currency": "USD",
        "rid": None,
        "reverses_id": None,
        **more,
    }


def _transfers(
    call: SettledCall, amount: int, n: int, latest: LatestRecord | None, booked_us: int, now_us: int
) -> list[dict[str, Any]]:
    account = unbilled(call.org)
    common = {"org": call.org, "rid": call.rid, "booked_us": booked_us, "created_us": now_us}
    rows = []
    if latest and latest.amount_nanousd:
        undone = charge_id(call.rid, latest.n)
        rows.append(
            transfer(
                f"{call.rid}:reversal:{latest.n}",
                "reversal",
                REVENUE,
                account,
                latest.amount_nanousd,
                **{**common, "reverses_id": undone},
            )
        )
    if amount:
        rows.append(transfer(charge_id(call.rid, n), "charge", account, REVENUE, amount, **common))
    return rows


def _usage(
    call: SettledCall,
    payload_sha: bytes,
    charge: Charge,
    cost_nanousd: int,
    n: int,
    ended_us: int,
    now_us: int,
) -> dict[str, Any]:
    return {
        "rid": call.rid,
        **({"n": n} if n > 1 else {}),
        "org": call.org,
        "project": call.project,
        "key": call.key,
        "gateway": call.gateway,
        "model_requested": call.model_requested,
        "model": call.model,
        "variant": call.variant,
        "pool": call.pool,
        "capacity_class": call.capacity_class,
        "is_simulated": call.is_simulated is True,
        "tier": call.tier,
        "batch": call.batch,
        "status": call.status.value,
        "finish_reason": call.finish_reason,
        "error_code": call.error_code,
        "source": call.source.value,
        **msgspec.structs.asdict(call.usage),
        "price_version": call.price_version,
        **_route(call.route),
        **{part: getattr(charge, part) for part in CHARGE_PARTS},
        "cost_nanousd": cost_nanousd,
        "amount_nanousd": charge.amount_nanousd,
        "month": utc_month(call.admitted_us),
        "admitted_us": call.admitted_us,
        "first_token_us": call.first_token_us,
        "ended_us": ended_us,
        "ingested_us": now_us,
        "payload_sha": payload_sha,
    }


def _route(route: Route | msgspec.UnsetType) -> dict[str, Any]:
    if route is msgspec.UNSET:
        return dict.fromkeys(Route.__struct_fields__)
    return msgspec.structs.asdict(route)
