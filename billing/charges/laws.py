"""Laws of charges: sums are those of transfers and records, lines are those of their cut.

A month of an organization is checked at a time, each in a snapshot of its own.
"""

from __future__ import annotations

import itertools

from billing.charges import audit
from billing.charges.audit import Amounts
from billing.db.engine import Store
from billing.invoices import store as invoices
from billing.invoices.cuts import Cut, free
from billing.ledger.report import Check, Progress, judged

NEWEST_US = 2**62
"""A place behind every other."""


def charges_recompute(store: Store, progress: Progress) -> list[Check]:
    """Read the transfers of each month once, and compare them with sums and with lines."""
    of_sums: list[str] = []
    of_lines: list[str] = []
    count = 0
    for org, month_us in _months(store):
        progress("charges of months", count, 0)
        count += 1
        with store.read() as conn:
            taken = invoices.cuts(conn, org)
            void = invoices.void_ids(conn, org)
            of_month = [(owner, cut) for owner, cut in taken if cut.service_start_us == month_us]
            counted = [(owner, cut) for owner, cut in of_month if owner not in void]
            real: Amounts = {}
            of_lines += _overlaps(counted)
            for owner in audit.invoices_of(conn, org, month_us):
                cut_out: Amounts = {}
                for cut in (cut for one, cut in of_month if one == owner):
                    _join(cut_out, audit.amounts(conn, org, cut))
                lines = audit.of_lines(conn, owner, month_us)
                of_lines += _differences(owner, lines, "its transfers", cut_out)
                if owner not in void:
                    _join(real, cut_out)
            for cut in free(month_us, NEWEST_US, [cut for _, cut in counted]):
                _join(real, audit.amounts(conn, org, cut))
            stands = audit.of_sums(conn, org, month_us)
        of_sums += _differences(org, stands, "the transfers", real)
    return [
        judged(
            "I5 invoice_lines",
            "every invoice line sums the transfers of its cut, and no two cuts overlap",
            of_lines,
            count,
        ),
        judged(
            "I9 charge_sums",
            "the sums of every month are those of its transfers and their records",
            of_sums,
            count,
        ),
    ]


def _months(store: Store) -> list[tuple[str, int]]:
    with store.read() as conn:
        return [(org, at_us) for org in audit.orgs(conn) for at_us in audit.months(conn, org)]


def _overlaps(cuts: list[tuple[str, Cut]]) -> list[str]:
    ordered = sorted(cuts, key=lambda one: one[1])
    return [
        f"{owner} and {next_owner} both have charges of {cut.service_start_us}"
        for (owner, cut), (next_owner, follower) in itertools.pairwise(ordered)
        if follower.after_us < cut.upto_us
    ]


def _join(sums: Amounts, more: Amounts) -> None:
    for group, amount in more.items():
        sums[group] = sums.get(group, 0) + amount


def _differences(owner: str, stands: Amounts, what: str, real: Amounts) -> list[str]:
    return [
        f"{owner} {' '.join(str(part) for part in group if part != '')}: stands at "
        f"{stands.get(group, 0)}, {what} give {real.get(group, 0)}"
        for group in sorted(stands.keys() | real.keys(), key=str)
        if stands.get(group, 0) != real.get(group, 0)
    ]
