"""Whether a VAT id is in use: the port that asks, and what an answer is worth to an invoice.

Pure. Reverse charge alone depends on it. An answer holds for some days. One that is missing or old
is no answer: whoever does not know must not issue.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

import msgspec

from billing.parties.party import VAT_COUNTRIES
from billing.taxes.tax_rule import REVERSE_CHARGE, TaxRule

DAY_US = 86_400_000_000


class NoVatAnswer(Exception):
    """Nobody said whether the id is in use. The message says why."""


class VatAnswer(NamedTuple):
    """`consultation` is the number under which the answer is on record, empty where there is
    none."""

    is_valid: bool
    consultation: str = ""


class VatLookup(Protocol):
    """Asks, within a bound of time. Raises NoVatAnswer. `requester` is the seller's VAT id: who
    asks is given a consultation number."""

    async def __call__(self, vat_id: str, requester: str) -> VatAnswer: ...


class VatCheck(msgspec.Struct, frozen=True, kw_only=True):
    """An answer as it is kept, and frozen with an invoice."""

    vat_id: str
    requester: str
    is_valid: bool
    consultation: str
    checked_us: int


class Doubt(NamedTuple):
    """What parks a draft until somebody approves it after `since_us`."""

    because: str
    since_us: int = 0


def can_be_looked_up(vat_id: str) -> bool:
    """Ids of the European Union, which begin with their country."""
    return vat_id[:2] in VAT_COUNTRIES


def doubts(
    rules: Iterable[TaxRule], vat_id: str, check: VatCheck | None, now_us: int, days: int
) -> tuple[Doubt, ...]:
    """Why nobody should rely on the buyer's VAT id yet. `check` is the last answer of it."""
    is_relied_on = any(rule.category == REVERSE_CHARGE for rule in rules)
    if not is_relied_on or not can_be_looked_up(vat_id):
        return ()
    if check is None or now_us - check.checked_us > days * DAY_US:
        because = f"nobody has said within {days} days that {vat_id} is in use"
        return (Doubt(f"vat_id_unchecked: {because}"),)
    if not check.is_valid:
        return (Doubt(f"vat_id_invalid: {vat_id} is not in use", check.checked_us),)
    return ()


def is_due(check: VatCheck | None, now_us: int, days: int) -> bool:
    """Whether to ask again: in good time before an answer is too old, and daily where it is no."""
    if check is None:
        return True
    keep_us = days * DAY_US // 2
    return now_us - check.checked_us >= (keep_us if check.is_valid else min(keep_us, DAY_US))
