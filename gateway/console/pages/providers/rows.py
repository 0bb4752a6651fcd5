"""Providers as the console shows them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from billing.bills.reconciliation import Reconciliation
from billing.money import usd
from gateway.admin.price_lists.service import SeenList
from gateway.admin.providers.service import CheckedProvider
from gateway.console.breakers import REASONS
from gateway.console.formatting import DisplayTime, Money, duration, instant, money, plural
from gateway.providers.price_list import PriceChange
from routing.health.breaker import BreakerState


@dataclass(frozen=True, slots=True)
class HealthView:
    state: str
    reason: str
    next_probe: str
    """In how long it may be asked again; empty: now."""

    @property
    def is_well(self) -> bool:
        return self.state == BreakerState.CLOSED.value


@dataclass(frozen=True, slots=True)
class KeyView:
    name: str
    health: HealthView
    is_set: bool
    share: str
    limits: str
    region: str
    in_flight: int
    spend: Money


@dataclass(frozen=True, slots=True)
class PriceChangeView:
    words: str
    was: str
    is_now: str
    per: str


@dataclass(frozen=True, slots=True)
class ListView:
    version: int
    status: str
    starts: DisplayTime
    who: str
    comment: str
    models: str
    changes: tuple[PriceChangeView, ...]


@dataclass(frozen=True, slots=True)
class BillView:
    span: str
    posted: DisplayTime | None
    billed: Money
    booked: Money
    variance: Money
    differs: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ProviderView:
    name: str
    is_account: bool
    health: HealthView
    pools: tuple[str, ...]
    spend: Money
    keys: tuple[KeyView, ...]
    spend_without: Money | None
    """With keys that are gone, or without one."""
    lists: tuple[ListView, ...]
    bills: tuple[BillView, ...]


@dataclass(frozen=True, slots=True)
class TriedView:
    """What came of one tiny call."""

    name: str
    is_ok: bool
    words: str
    detail: str


@dataclass(frozen=True, slots=True)
class ProvidersView:
    rows: tuple[ProviderView, ...]
    is_cut: bool
    test: TriedView | None


def provider_view(
    row: Mapping[str, Any], lists: Sequence[ListView], bills: Sequence[BillView], now_us: int
) -> ProviderView:
    """`row` is one of `/admin/v1/providers`."""
    shares = sum(key["share"] for key in row["keys"])
    without = row["spend_usd"] - sum(key["spend_usd"] for key in row["keys"])
    return ProviderView(
        name=row["name"],
        is_account=row["is_account"],
        health=_health(row, now_us),
        pools=tuple(row["pools"]),
        spend=money(row["spend_usd"]),
        keys=tuple([_key(key, shares, now_us) for key in row["keys"]]),
        spend_without=money(without) if without else None,
        lists=tuple(lists),
        bills=tuple(bills),
    )


def list_view(seen: SeenList, now_us: int) -> ListView:
    models = sorted({rate.model for rate in seen.rates})
    by = seen.created_by if seen.approved_by is None else seen.approved_by
    verb = "drafted" if seen.approved_by is None else "approved"
    return ListView(
        version=seen.version,
        status=seen.status,
        starts=instant(seen.starts_us, now_us),
        who=f"{verb} by {by}",
        comment=seen.comment,
        models=", ".join(models),
        changes=tuple([_change(each) for each in seen.changes]),
    )


def bill_view(bill: Reconciliation, now_us: int) -> BillView:
    differing = [line for line in bill.lines if line.variance_nanousd]
    span = (
        bill.first_day
        if bill.first_day == bill.last_day
        else f"{bill.first_day} to {bill.last_day}"
    )
    return BillView(
        span=span,
        posted=None if bill.posted_us is None else instant(bill.posted_us, now_us),
        billed=money(bill.billed_nanousd),
        booked=money(bill.booked_nanousd),
        variance=money(bill.variance_nanousd),
        differs=f"{plural(len(differing), 'line')} of {len(bill.lines)} differ",
        sha256=bill.sha256[:12],
    )


def tried_view(name: str, tested: CheckedProvider | str) -> TriedView:
    """Words, where it could not be tested."""
    if isinstance(tested, str):
        return TriedView(name, False, tested, "")
    check = tested.check
    key = f" with {tested.key}" if tested.key else ""
    if check.is_ok:
        words = (
            f"It works: {tested.row.name} answered in {duration(round(check.took_s * 1e6))}{key}."
        )
        return TriedView(name, True, words, "")
    status = f", status {check.status}" if check.status else ""
    outcome = check.outcome.replace("_", " ")
    hint = check.hint[:1].upper() + check.hint[1:]
    words = f"It does not work: {outcome}{status} at {tested.row.name}{key}. {hint}"
    return TriedView(name, False, words, check.detail or "")


def _key(key: Mapping[str, Any], shares: int, now_us: int) -> KeyView:
    limits = [
        f"{key[name]:,} {words}"
        for name, words in (
            ("requests_per_minute", "calls a minute"),
            ("tokens_per_minute", "tokens a minute"),
            ("concurrent", "at a time"),
        )
        if key[name] is not None
    ]
    return KeyView(
        name=key["name"],
        health=_health(key, now_us),
        is_set=key["is_set"],
        share=f"{100 * key['share'] / shares:.0f} %",
        limits=", ".join(limits),
        region=key["region"] or "",
        in_flight=key["in_flight"],
        spend=money(key["spend_usd"]),
    )


def _health(row: Mapping[str, Any], now_us: int) -> HealthView:
    reason, at_us = row["reason"], row["next_probe_at"]
    words = "" if reason is None else REASONS.get(reason, str(reason))
    state = BreakerState(row["state"]).value
    return HealthView(state, words, "" if at_us is None else f"in {duration(at_us - now_us)}")


def _change(change: PriceChange) -> PriceChangeView:
    longer = f" from {change.prompt_from_tokens:,} tokens" if change.prompt_from_tokens else ""
    parts = (change.model, change.tier, change.component)
    return PriceChangeView(
        words=" ".join(part.replace("_", " ") for part in parts) + longer,
        was="none" if change.was is None else usd(change.was),
        is_now="none" if change.is_now is None else usd(change.is_now),
        per="USD per M" if change.per == "mtok" else "USD each",
    )
