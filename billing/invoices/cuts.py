"""Cuts of the ledger: which charges of an organization's month an invoice has.

Pure. A cut is a span (after, upto] of places in booking order. What no invoice has yet is free. So
a month is billed whole, however late a charge comes, and no charge is billed twice. Guards law 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Cut(NamedTuple):
    """The charges of a month whose place is in (after_us, upto_us]."""

    service_start_us: int
    after_us: int
    upto_us: int


def free(month_us: int, moved_us: int, taken: Iterable[Cut]) -> Iterator[Cut]:
    """What of a month up to its newest place is on no invoice. `taken` has the cuts of invoices, of
    any month."""
    after_us = 0
    for cut in sorted(cut for cut in taken if cut.service_start_us == month_us):
        if after_us < cut.after_us:
            yield Cut(month_us, after_us, cut.after_us)
        after_us = max(after_us, cut.upto_us)
    if after_us < moved_us:
        yield Cut(month_us, after_us, moved_us)
