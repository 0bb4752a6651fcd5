"""Which account of the books each account of the ledger is, as data.

Pure. `*` in a pattern stands for one part of a code. The first pattern that fits holds, and a code
that none fits is an error: nothing is left out of the books silently.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ACCOUNTS: Mapping[str, str] = {
    "org:*:unbilled": "Assets:Unbilled",
    "org:*:receivable": "Assets:Receivable",
    "org:*:on_account": "Liabilities:OnAccount",
    "org:*:grant:*": "Liabilities:Credits",
    "cash": "Assets:Cash:Credits",
    "cash:payments": "Assets:Cash:Payments",
    "tax:**": "Liabilities:Tax",
    "payable:**": "Liabilities:Capacity",
    "revenue:usage": "Income:Usage",
    "revenue:breakage": "Income:Breakage",
    "revenue:one_off": "Income:OneOff",
    "revenue:credited": "Income:CreditNotes",
    "revenue:**": "Income:Terms",
    "rounding:cents": "Income:Rounding",
    "expense:**": "Expenses:Other",
    "expense:promotion": "Expenses:Promotion",
    "expense:bad_debt": "Expenses:BadDebt",
    "cogs:**": "Expenses:Capacity:Calls",
    "unallocated:**": "Expenses:Capacity:Unused",
    "variance:**": "Expenses:Capacity:Variance",
}
"""The default, of Beancount's five kinds. `**` at the end stands for all further parts."""
PATTERN = re.compile(r"([^:\s*]+|\*)(:([^:\s*]+|\*))*(:\*\*)?")
ACCOUNT = re.compile(r"(Assets|Liabilities|Equity|Income|Expenses)(:[A-Z0-9][A-Za-z0-9-]*)+")


class UnmappedAccount(Exception):
    """The books have no account for one of the ledger."""


def with_own(own: Mapping[str, str]) -> Mapping[str, str]:
    """The default with an operator's own accounts, whose patterns come first. Raises ValueError."""
    for pattern, account in own.items():
        if not PATTERN.fullmatch(pattern):
            raise ValueError(f"{pattern!r} is no pattern of accounts, as in org:*:receivable")
        if not ACCOUNT.fullmatch(account):
            raise ValueError(f"{account!r} is no account, as in Assets:Receivable")
    return {**own, **{code: name for code, name in ACCOUNTS.items() if code not in own}}


def account_for(code: str, accounts: Mapping[str, str] = ACCOUNTS) -> str:
    """A code that stands there as it is comes before patterns. Raises UnmappedAccount."""
    if code in accounts:
        return accounts[code]
    parts = code.split(":")
    for pattern, account in accounts.items():
        if _fits(pattern.split(":"), parts):
            return account
    raise UnmappedAccount(code)


def _fits(pattern: list[str], parts: list[str]) -> bool:
    if pattern[-1] == "**":
        head = pattern[:-1]
        return len(parts) > len(head) and _fits_each(head, parts[: len(head)])
    return len(pattern) == len(parts) and _fits_each(pattern, parts)


def _fits_each(pattern: list[str], parts: list[str]) -> bool:
    return all(want in ("*", part) for want, part in zip(pattern, parts, strict=True))
