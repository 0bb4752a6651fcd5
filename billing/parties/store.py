"""Statements on sellers, billing profiles and tax rules. Each is put whole, under an id of the
caller's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, delete, func, select
from sqlalchemy.exc import IntegrityError

from billing.db.columns import table_of
from billing.db.engine import Store, take_turns
from billing.db.insert import insert_or_replace
from billing.parties.party import BadParty, BillingProfile, Seller, checked_profile, checked_seller
from billing.parties.tables import BillingProfileRow, SellerRow, TaxRuleRow
from billing.taxes.tax_rule import (
    BadTaxRule,
    TaxRule,
    checked_rule,
    lack_of,
    overlapping,
    rule_for,
    rules_for,
)

SELLER = table_of(SellerRow)
PROFILE = table_of(BillingProfileRow)
RULE = table_of(TaxRuleRow)
RULE_FIELDS = TaxRule.__struct_fields__
RULE_LOCK = 0x51_75_1C_EB


class BilledAs(NamedTuple):
    """Whom an organization is billed by, as whom, and under which tax rule, if any fits."""

    seller: Seller
    buyer: BillingProfile
    rule: TaxRule | None


class PartiesSeen(NamedTuple):
    """What differs once a change came to whom an organization is billed by, as whom, or under which
    rules."""

    contact: tuple[Seller, BillingProfile] | None
    has_sellers: bool
    rules: int
    rules_changed_us: int | None


def put_seller(store: Store, seller: Seller, now_us: int) -> Seller:
    """Raises BadParty, also where another seller has its series."""
    checked = checked_seller(seller)
    row = {
        **{"seller_id": seller.seller_id, "series": seller.series, "changed_us": now_us},
        "details": msgspec.to_builtins(checked),
    }
    try:
        with store.write() as conn:
            insert_or_replace(conn, SELLER, [row], ("series", "details", "changed_us"))
    except IntegrityError as taken:
        raise BadParty("series", "another seller has this series") from taken
    return checked


def seller(store: Store, seller_id: str) -> Seller | None:
    with store.read() as conn:
        return _seller(conn, seller_id)


def sellers(store: Store, *, after: str | None = None, limit: int | None = None) -> list[Seller]:
    """By their ids, from the one behind an id."""
    statement = select(SELLER.c.details).order_by(SELLER.c.seller_id).limit(limit)
    if after is not None:
        statement = statement.where(SELLER.c.seller_id > after)
    with store.read() as conn:
        return [msgspec.convert(row, Seller) for row in conn.execute(statement).scalars()]


def put_profile(store: Store, profile: BillingProfile, now_us: int) -> BillingProfile:
    """Raises BadParty, also for a seller that is not there."""
    checked = checked_profile(profile)
    row = {
        **{"org": profile.org, "seller": profile.seller, "changed_us": now_us},
        "details": msgspec.to_builtins(checked),
    }
    with store.write() as conn:
        if _seller(conn, profile.seller) is None:
            raise BadParty("seller", f"there is no seller {profile.seller!r}")
        insert_or_replace(conn, PROFILE, [row], ("seller", "details", "changed_us"))
    return checked


def profile(store: Store, org: str) -> BillingProfile | None:
    with store.read() as conn:
        return _profile(conn, org)


def put_rule(store: Store, rule: TaxRule, now_us: int) -> TaxRule:
    """Raises BadTaxRule, also where another rule of its jurisdiction may fit the same buyer."""
    row = {**msgspec.to_builtins(checked_rule(rule)), "changed_us": now_us}
    with store.write() as conn:
        take_turns(conn, RULE_LOCK)
        if other := overlapping(rule, _rules(conn)):
            named = f"{other.rule_id!r} is a rule of {rule.jurisdiction!r} for the same buyers"
            raise BadTaxRule("jurisdiction", f"{named} at the same time")
        insert_or_replace(conn, RULE, [row], [name for name in row if name != "rule_id"])
    return rule


def delete_rule(store: Store, rule_id: str) -> TaxRule | None:
    """The rule that was there."""
    columns = (RULE.c[name] for name in RULE_FIELDS)
    with store.write() as conn:
        found = conn.execute(select(*columns).where(RULE.c.rule_id == rule_id)).mappings().first()
        conn.execute(delete(RULE).where(RULE.c.rule_id == rule_id))
    return None if found is None else _rule(dict(found))


def rules(store: Store, *, after: str | None = None, limit: int | None = None) -> list[TaxRule]:
    """By their ids, from the one behind an id."""
    with store.read() as conn:
        return _rules(conn, after, limit)


def legal_names(conn: Connection) -> dict[str, str]:
    """By organization, of those that have a billing profile."""
    rows = conn.execute(select(PROFILE.c.org, PROFILE.c.details))
    return {org: details["legal_name"] for org, details in rows}


def vat_ids(conn: Connection) -> dict[str, str]:
    """Each VAT id of a billing profile, with one of a seller that bills it, empty where it has
    none."""
    joined = PROFILE.join(SELLER, SELLER.c.seller_id == PROFILE.c.seller)
    rows = conn.execute(select(PROFILE.c.details, SELLER.c.details).select_from(joined))
    pairs = ((buyer["vat_id"], seller["vat_id"]) for buyer, seller in rows)
    return {vat_id: requester for vat_id, requester in pairs if vat_id}


def has_sellers(conn: Connection) -> bool:
    return conn.execute(select(SELLER.c.seller_id).limit(1)).first() is not None


def billed_as(conn: Connection, org: str, at_us: int) -> BilledAs | None:
    """None for an organization without a billing profile."""
    named = contact(conn, org)
    return None if named is None else BilledAs(*named, rule_for(_rules(conn), *named, at_us))


def contact(conn: Connection, org: str) -> tuple[Seller, BillingProfile] | None:
    """Who bills an organization, and whom. None for one without a billing profile."""
    buyer = _profile(conn, org)
    by = None if buyer is None else _seller(conn, buyer.seller)
    return None if buyer is None or by is None else (by, buyer)


def seen(conn: Connection, org: str) -> PartiesSeen:
    statement = select(func.count(), func.max(RULE.c.changed_us)).select_from(RULE)
    of_rules = conn.execute(statement).one()
    return PartiesSeen(contact(conn, org), has_sellers(conn), *of_rules)


def rules_at(
    conn: Connection, billed: BilledAs, instants_us: Iterable[int]
) -> dict[int, tuple[TaxRule, ...]]:
    """By instant the rules that hold for a seller and a buyer."""
    rules = _rules(conn)
    return {at_us: rules_for(rules, billed.seller, billed.buyer, at_us) for at_us in instants_us}


def lacks_at(conn: Connection, billed: BilledAs, instants_us: Iterable[int]) -> tuple[str, ...]:
    """Why there are instants for which nobody knows the tax."""
    rules = _rules(conn)
    found = (lack_of(rules, billed.seller, billed.buyer, at_us) for at_us in instants_us)
    return tuple(sorted({lack for lack in found if lack}))


def _seller(conn: Connection, seller_id: str) -> Seller | None:
    statement = select(SELLER.c.details).where(SELLER.c.seller_id == seller_id)
    details: Any = conn.execute(statement).scalar_one_or_none()
    return None if details is None else msgspec.convert(details, Seller)


def _profile(conn: Connection, org: str) -> BillingProfile | None:
    statement = select(PROFILE.c.details).where(PROFILE.c.org == org)
    details: Any = conn.execute(statement).scalar_one_or_none()
    return None if details is None else msgspec.convert(details, BillingProfile)


def _rules(conn: Connection, after: str | None = None, limit: int | None = None) -> list[TaxRule]:
    columns = (RULE.c[name] for name in RULE_FIELDS)
    statement = select(*columns).order_by(RULE.c.rule_id).limit(limit)
    if after is not None:
        statement = statement.where(RULE.c.rule_id > after)
    return [_rule(dict(row)) for row in conn.execute(statement).mappings()]


def _rule(row: Mapping[str, Any]) -> TaxRule:
    return TaxRule(**{**row, "buyer_postal_codes": tuple(row["buyer_postal_codes"])})
