"""Budgets as JSON: what they are, how they stand, and their alerts."""

from collections.abc import Sequence
from typing import Any

from billing.budgets.budget import EACH_USER, Budget, digest_of
from billing.budgets.windows import Calendar, Rolling, Window
from billing.money import usd
from gateway.api.shapes import at
from gateway.budgets import Standing, Standings


async def with_standings(
    standings: Standings, found: Sequence[Budget], end_user: str | None = None
) -> list[dict[str, Any]]:
    """Budgets with how they stand; of each end user's only that of the one who was named."""
    subjects = {
        budget.budget_id: digest_of(end_user) if end_user and budget.end_user else budget.subject
        for budget in found
        if budget.end_user != EACH_USER or end_user
    }
    asked = [(b, subjects[b.budget_id]) for b in found if b.budget_id in subjects]
    stands = dict(zip(subjects, await standings.of(asked), strict=True))
    return [budget_shape(budget, stands.get(budget.budget_id)) for budget in found]


def budget_shape(budget: Budget, standing: Standing | None) -> dict[str, Any]:
    """`state` is null of a budget of each end user."""
    return {
        "id": budget.budget_id,
        "object": "budget",
        "organization": budget.org,
        "scope": budget.scope,
        "name": budget.name,
        "hard": budget.is_hard,
        "limit_usd": usd(budget.amount_nanousd),
        "window": window_shape(budget.window),
        "alerts": list(budget.alert_percents),
        "created_at": at(budget.created_us),
        "ended_at": at(budget.ended_us),
        "state": None if standing is None else _state(budget, standing),
    }


def window_shape(window: Window) -> dict[str, Any]:
    match window:
        case Calendar(unit=unit, zone=zone, anchor=anchor):
            return {"kind": unit.value, "time_zone": zone, "anchor": anchor.isoformat()}
        case Rolling(span_s=span_s):
            return {"kind": "rolling", "seconds": span_s}
        case _:
            return {"kind": "total"}


def _state(budget: Budget, standing: Standing) -> dict[str, Any]:
    held = standing.held_nanousd
    return {
        "spent_usd": usd(standing.spent_nanousd),
        "held_usd": None if held is None else usd(held),
        "remaining_usd": usd(standing.left_nanousd(budget.amount_nanousd)),
        "starts_at": at(standing.starts_us),
        "resets_at": at(standing.resets_us),
    }


def alert(row: dict[str, Any]) -> dict[str, Any]:
    """`end_user` is the digest that records know an end user by."""
    user = f"/user:{row['end_user']}" if row["end_user"] else ""
    return {
        "object": "budget.alert",
        "budget": row["budget_id"],
        "name": row["name"],
        "organization": row["org"],
        "scope": row["owner"] + user,
        "end_user": row["subject"] or None,
        "percent": row["percent"],
        "limit_usd": usd(row["amount_nanousd"]),
        "spent_usd": usd(row["spent_nanousd"]),
        "period_starts_at": at(row["bucket_us"]) if row["bucket_us"] else None,
        "raised_at": at(row["raised_us"]),
    }
