"""Accounts, transfers and the proof of the ledger."""

from pydantic import Field, NonNegativeInt

from billing.ledger.report import Outcome
from gateway.api.schemas import Answer, At, Usd


class LedgerAccount(Answer):
    code: str
    org: str | None
    currency: str
    debits_usd: Usd = Field(validation_alias="debits")
    credits_usd: Usd = Field(validation_alias="credits")


class Transfer(Answer):
    """One positive amount from one account to another."""

    transfer_id: str
    kind: str
    debit_account: str
    credit_account: str
    currency: str
    org: str
    rid: str | None
    reverses_id: str | None
    amount_usd: Usd = Field(validation_alias="amount_nanousd")
    booked_at: At = Field(validation_alias="booked_us", description="when it counts")
    posted_at: At = Field(
        validation_alias="created_us",
        description="when the ledger has it: by this, invoices and the journal take it",
    )


class LedgerCheck(Answer):
    """`detail` is the first offending row, or why it could not be checked."""

    name: str
    law: str
    outcome: Outcome
    checked: NonNegativeInt
    detail: str


class LedgerReport(Answer):
    """`ok` is false if a law is broken."""

    ok: bool
    checks: list[LedgerCheck]
