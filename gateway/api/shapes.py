"""The ledger's records as JSON: times in ISO 8601 UTC, money as decimal strings in USD."""

import datetime
from typing import Any

from billing.money import usd
from billing.queries import CallRecord, UsageRecord, UsageSum

RARER = ("cache_write", "reasoning", "gpu_ms")
"""Told only of what used them: most models have none."""


def at(epoch_us: int | None) -> str | None:
    """Epoch microseconds as ISO 8601 in UTC."""
    if epoch_us is None:
        return None
    return datetime.datetime.fromtimestamp(epoch_us / 1e6, datetime.UTC).isoformat()


ATTEMPT = (
    *("rid", "n", "pool", "model", "replica", "started_us", "ended_us", "outcome"),
    *("input", "cached_input", "output"),
)
OUR_COST = (
    *("busy_us", "served", "nanousd_per_s", "input_nanousd_per_mtok", "output_nanousd_per_mtok"),
)


def explained(call: CallRecord) -> dict[str, Any]:
    """One call, from its admission to its transfers."""
    used = call.usage
    return summary(used) | {
        "timeline": {
            "admitted_at": at(used.admitted_us),
            "first_token_at": at(used.first_token_us),
            "ended_at": at(used.ended_us),
            "booked_at": at(used.ingested_us),
        },
        "rule": call.decision.get("rule"),
        "policy_revision": call.decision.get("policy_revision"),
        "candidates": [candidate(found) for found in call.decision.get("candidates", [])],
        "attempts": [{name: attempt[name] for name in ATTEMPT} for attempt in call.attempts],
        "charge": {
            "input_usd": usd(used.input_nanousd),
            "cached_input_usd": usd(used.cached_input_nanousd),
            "output_usd": usd(used.output_nanousd),
            "request_usd": usd(used.request_nanousd),
            **{f"{name}_usd": usd(amount) for name, amount in _rarer_parts(used).items()},
        },
        "transfers": [transfer(t) for t in call.transfers],
    }


def costed(call: CallRecord) -> dict[str, Any]:
    """What the call cost us, which is no tenant's business: with each attempt its own."""
    cost = call.usage.cost_nanousd
    wasted = sum(attempt["cost_nanousd"] for attempt in call.attempts if not attempt["served"])
    return {
        "attempts": [
            {name: attempt[name] for name in (*ATTEMPT, *OUR_COST)}
            | {"cogs_usd": usd(attempt["cost_nanousd"])}
            for attempt in call.attempts
        ],
        "cogs": {
            "cogs_usd": usd(cost),
            "wasted_usd": usd(wasted),
            "margin_usd": usd(call.usage.amount_nanousd - cost),
        },
    }


def _rarer_parts(used: UsageRecord) -> dict[str, int]:
    """By name the nano-USD of components that few calls pay."""
    parts = {name: getattr(used, f"{name}_nanousd") for name in (*RARER, "minimum")}
    return {name: amount for name, amount in parts.items() if amount}


def candidate(weighed: dict[str, Any]) -> dict[str, Any]:
    return weighed | {
        "score_usd": usd(weighed["score_nanousd"]),
        "cost_usd": usd(weighed["cost_nanousd"]),
    }


def summary(used: UsageRecord) -> dict[str, Any]:
    """One line of a list of calls."""
    return {
        "id": used.rid,
        "object": "generation",
        "organization": used.org,
        "project": used.project,
        "key": used.key,
        "model_requested": used.model_requested,
        "model": used.model,
        "variant": used.variant,
        "pool": used.pool,
        "capacity_class": used.capacity_class,
        "service_tier": used.tier,
        "status": used.status,
        "finish_reason": used.finish_reason,
        "error_code": used.error_code,
        "usage_source": used.source,
        "usage": {
            "input": used.input,
            "cached_input": used.cached_input,
            "output": used.output,
            **{name: count for name in RARER if (count := getattr(used, name))},
        },
        "price_version": used.price_version,
        "cost_usd": usd(used.amount_nanousd),
        "created_at": at(used.admitted_us),
    }


def transfer(row: dict[str, Any]) -> dict[str, Any]:
    rest = {k: v for k, v in row.items() if not k.endswith(("_us", "_nanousd"))}
    return rest | {"amount_usd": usd(row["amount_nanousd"]), "booked_at": at(row["booked_us"])}


def usage_sum(row: UsageSum) -> dict[str, Any]:
    return {
        "group": row.group,
        "requests": row.requests,
        "usage": {
            "input": row.input,
            "cached_input": row.cached_input,
            "output": row.output,
            **{name: count for name in RARER if (count := getattr(row, name))},
        },
        "cost_usd": usd(row.amount_nanousd),
    }
