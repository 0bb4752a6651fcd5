"""The invoices of an organization, made again from what the API tells of its calls, prices, terms,
credit and tax rules. Standard library only.

An invoice of a month has its charges that were booked before it was issued, and those of earlier
months that came after their own. Lines sum parts of calls; terms and credit are lines of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from tests.gateway.accountant.prices import MILLION, TOKENS, Json, PriceList, half_even, nano

CENT = 10_000_000


class Line(NamedTuple):
    """What tells the lines of an invoice apart."""

    kind: str
    month: str
    project: str = ""
    model: str = ""
    tier: str = ""
    batch: bool = False
    component: str = ""
    version: str = ""
    unit_price: int = 0
    grant: str = ""
    term: str = ""
    simulated: bool = False


class Sum(NamedTuple):
    quantity: int
    amount: int
    transfers: int

    def plus(self, other: Sum) -> Sum:
        return Sum(*(one + another for one, another in zip(self, other, strict=True)))


NOTHING = Sum(0, 0, 0)
Lines = dict[Line, Sum]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Answers of the API, as they came: `calls` are rows of `/v1/generations`, `explained` those of
    them that were corrected, `transfers` those of the organization, `issued` when each invoice was,
    by month, in their order."""

    organization: str
    calls: Sequence[Json]
    explained: Mapping[str, Json]
    prices: Sequence[Json]
    terms: Sequence[Json]
    transfers: Sequence[Json]
    grants: Sequence[Json]
    seller: Json
    profile: Json
    rules: Sequence[Json]
    issued: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Posted:
    """A part of a line, and when the ledger got it."""

    at: str
    line: Line
    sum: Sum


@dataclass(frozen=True, slots=True)
class Reckoned:
    """`taxes` has (base, tax) in cents by (category, rate, jurisdiction)."""

    lines: Lines
    net_cents: int
    taxes: Mapping[tuple[str, str, str], tuple[int, int]]

    @property
    def total_cents(self) -> int:
        return self.net_cents + sum(tax for _, tax in self.taxes.values())


def reckon(evidence: Evidence) -> dict[str, Reckoned]:
    """The invoices by month."""
    posted = [*_charges(evidence), *_credits(evidence)]
    invoices: dict[str, Reckoned] = {}
    before: list[Lines] = []
    for month in evidence.issued:
        lines = _charged(posted, evidence.issued, month)
        months = sorted({line.month for line in lines} | {month})
        for each in months:
            so_far = _of_month([*before, lines], each)
            lines |= _less(_terms(evidence, so_far, each), _of_month(before, each))
        before.append(dict(lines))
        invoices[month] = _with_cents(evidence, lines, month)
    return invoices


def _charges(evidence: Evidence) -> Iterator[Posted]:
    """What calls used, and what better records took back of worse ones, at their own end."""
    book = PriceList(evidence.prices, evidence.organization)
    for call in evidence.calls:
        explained = evidence.explained.get(call["id"])
        records = explained["records"] if explained else [call]
        assert len(records) == call["corrections"] + 1, call["id"]
        assert call["price_version"] == book.version_at(call["created_at"]), call["id"]
        former: list[tuple[Line, Sum]] = []
        for record in records:
            parts = list(_parts(book, call, record))
            assert nano(record["cost_usd"]) == sum(each.amount for _, each in parts), call["id"]
            month = record["ended_at"][:7]
            for line, each in former:
                taken = Sum(-each.quantity, -each.amount, each.transfers)
                undone = line._replace(kind="adjustment", month=month)
                yield Posted(record["booked_at"], undone, taken)
            for line, each in parts:
                yield Posted(record["booked_at"], line, each)
            former = parts


def _parts(book: PriceList, call: Json, record: Json) -> Iterator[tuple[Line, Sum]]:
    parts = book.parts(record)
    if not any(part.amount for part in parts):
        return
    for part in parts:
        line = Line(
            *("usage", record["ended_at"][:7], call["project"], record["model"]),
            *(record["service_tier"], record["batch"], part.component, record["price_version"]),
            part.unit_price,
            simulated=call["simulated"],
        )
        of_transfer = int(part.amount > 0)
        is_by_call = part.component in ("request", "minimum")
        units = of_transfer if is_by_call else part.units
        if units or of_transfer:
            yield line, Sum(units, part.amount, of_transfer)


def _credits(evidence: Evidence) -> Iterator[Posted]:
    """What grants have paid of charges, and what corrections gave back to them."""
    mark = f"org:{evidence.organization}:grant:"
    for each in evidence.transfers:
        burns = each["kind"] == "burn"
        account = each["debit_account"] if burns else each["credit_account"]
        if account.startswith(mark) and each["kind"] in ("burn", "reversal"):
            grant = account.removeprefix(mark)
            line = Line("credit", each["booked_at"][:7], grant=grant)
            amount = nano(each["amount_usd"])
            yield Posted(each["posted_at"], line, Sum(0, -amount if burns else amount, 1))


def _charged(posted: Iterable[Posted], issued: Mapping[str, str], month: str) -> Lines:
    """The charges of the first invoice that is of their month or a later one, and was issued after
    they came."""
    lines: Lines = {}
    for each in posted:
        due = [one for one, at in issued.items() if one >= each.line.month and each.at <= at]
        if due and due[0] == month:
            lines[each.line] = lines.get(each.line, NOTHING).plus(each.sum)
    return {line: each for line, each in lines.items() if any(each)}


def _of_month(invoices: Iterable[Lines], month: str) -> Lines:
    lines: Lines = {}
    for each in (item for invoice in invoices for item in invoice.items()):
        line, of_line = each
        if line.month == month:
            lines[line] = lines.get(line, NOTHING).plus(of_line)
    return lines


def _less(due: Mapping[Line, int], billed: Lines) -> Lines:
    """What terms give, without what earlier invoices have of it."""
    had = {line: each.amount for line, each in billed.items() if line.term}
    rest = {line: due.get(line, 0) - had.get(line, 0) for line in {*due, *had}}
    return {line: Sum(0, amount, 1) for line, amount in rest.items() if amount}


def _terms(evidence: Evidence, lines: Lines, month: str) -> dict[Line, int]:
    """What the terms of a month add to all of its charges, in the order in which they apply."""
    paid_grants = {each["id"] for each in evidence.grants if each["category"] == "paid"}
    paid = -sum(each.amount for line, each in lines.items() if line.grant in paid_grants)
    parts: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for line, each in lines.items():
        if line.kind in ("usage", "adjustment"):
            part = parts[line.model, line.tier, line.component]
            part[0], part[1] = part[0] + each.quantity, part[1] + each.amount
    unpaid = sum(each.amount for line, each in lines.items() if not line.term)
    held = [
        term
        for term in evidence.terms
        if term["first_month"] <= month <= (term["last_month"] or month)
    ]
    added: dict[Line, int] = {}

    def add(kind: str, term: Json, amount: int) -> None:
        nonlocal unpaid
        limited = max(amount, -max(unpaid, 0))
        unpaid += limited
        if limited:
            added[Line(kind, month, term=term["id"])] = limited

    for kind in ("tiers", "allowance", "percent", "amount", "minimum"):
        for term in (each for each in held if each["kind"] == kind):
            match kind:
                case "tiers" | "allowance":
                    add(kind, term, _selective(term, parts))
                case "percent":
                    ppm = int(Decimal(term["percent"]) * 10_000)
                    add("discount", term, -half_even(max(unpaid, 0) * ppm, MILLION))
                case "amount":
                    add("discount", term, -nano(term["amount_usd"]))
                case "minimum":
                    add(kind, term, max(nano(term["amount_usd"]) - unpaid - paid, 0))
    return added


def _selective(term: Json, parts: dict[tuple[str, str, str], list[int]]) -> int:
    """What a term changes of what it selects, spread over that by quantity, in the order of model,
    tier and component."""
    chosen = [
        part
        for model, tier, component in sorted(parts)
        if term["model"] in ("", model)
        and term["service_tier"] in ("", tier)
        and (component == term["component"] if term["component"] else component in TOKENS)
        for part in [parts[model, tier, component]]
    ]
    units, cost = sum(part[0] for part in chosen), sum(part[1] for part in chosen)
    if units <= 0 or (term["kind"] == "allowance" and cost <= 0):
        return 0
    if term["kind"] == "tiers":
        change = _stepped(units, term) - cost
    else:
        change = -half_even(cost * min(term["units"], units), units)
    weight = given = 0
    for part in chosen:
        weight += part[0]
        upto = change * weight // units
        part[1], given = part[1] + upto - given, upto
    return change


def _stepped(units: int, term: Json) -> int:
    exact = below = 0
    for step in term["tiers"]:
        price, end = nano(step["price_usd_per_million"]), step["up_to"]
        if term["mode"] == "volume":
            if end is None or units <= end:
                return half_even(units * price, MILLION)
            continue
        upto = units if end is None else min(units, end)
        exact, below = exact + max(upto - below, 0) * price, max(below, upto)
    return half_even(exact, MILLION)


def _with_cents(evidence: Evidence, lines: Lines, month: str) -> Reckoned:
    subtotal = sum(each.amount for each in lines.values())
    net_cents = half_even(subtotal, CENT)
    if rounding := net_cents * CENT - subtotal:
        lines = lines | {Line("rounding", month): Sum(0, rounding, 0)}
    paid = {each["id"] for each in evidence.grants if each["category"] == "paid"}
    taxed = [
        line
        for line in sorted(lines, key=lambda line: line.month)
        if line.kind != "rounding" and line.grant not in paid
    ]
    amounts: dict[tuple[tuple[str, str, str], ...], int] = defaultdict(int)
    for line in taxed:
        rules = _rules(evidence, line.month)
        how = tuple((each["category"], each["rate"], each["jurisdiction"]) for each in rules)
        amounts[how] += lines[line].amount
    bases = dict(zip(amounts, _shared([*amounts.values()]), strict=True))
    taxes = {
        each: (base, _tax(base, each[1])) for together, base in bases.items() for each in together
    }
    return Reckoned(lines, net_cents, taxes)


def _shared(amounts: Sequence[int]) -> list[int]:
    """Whole cents that sum to those of the sum: what lacks the least to one more gets it first."""
    cents = [amount // CENT for amount in amounts]
    left = half_even(sum(amounts), CENT) - sum(cents)
    by_rest = sorted(range(len(amounts)), key=lambda place: (-(amounts[place] % CENT), place))
    for place in by_rest[:left]:
        cents[place] += 1
    return cents


def _tax(base_cents: int, rate: str) -> int:
    """Half away from zero."""
    exact = abs(base_cents) * Decimal(rate) / 100
    tax = int(exact + Decimal("0.5"))
    return tax if base_cents >= 0 else -tax


def _rules(evidence: Evidence, month: str) -> list[Json]:
    """Of the rules that fit at the last instant of a month the one that says most; of each
    jurisdiction one, where that is of a jurisdiction."""
    buyer, seller = evidence.profile, evidence.seller
    address = buyer["address"]
    actual = {
        "seller": seller["id"],
        "buyer_country": address["country"],
        "buyer_region": address["region"],
        "buyer_kind": buyer["kind"],
    }
    at = _after(month)
    fitting = [
        rule
        for rule in evidence.rules
        if all(rule[name] in ("", of_sale) for name, of_sale in actual.items())
        and rule["buyer_city"].casefold() in ("", address["city"].casefold())
        and (
            not rule["buyer_postal_codes"]
            or address["postal_code"].startswith(tuple(rule["buyer_postal_codes"]))
        )
        and rule["from"] < at
        and (rule["to"] is None or rule["to"] >= at)
        and (rule["category"] != "AE" or (buyer["vat_id"] and seller["vat_id"]))
    ]
    fitting.sort(key=lambda rule: rule["id"])
    fitting.sort(key=lambda rule: str(rule["from"]), reverse=True)
    fitting.sort(key=lambda rule: -_said(rule))
    if not fitting[0]["jurisdiction"]:
        return fitting[:1]
    of_each: dict[str, Json] = {}
    for rule in fitting:
        if rule["jurisdiction"]:
            of_each.setdefault(rule["jurisdiction"], rule)
    return [*of_each.values()]


def _said(rule: Json) -> int:
    place = (rule["buyer_region"], rule["buyer_city"], rule["buyer_postal_codes"])
    return sum(map(bool, (rule["seller"], rule["buyer_country"], rule["buyer_kind"], *place)))


def _after(month: str) -> str:
    """The first instant behind a month."""
    year, number = int(month[:4]), int(month[5:])
    year, number = (year + 1, 1) if number == 12 else (year, number + 1)
    return f"{year}-{number:02d}-01T00:00:00+00:00"
