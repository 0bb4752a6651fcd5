"""Runs over the invoices of a month."""

from typing import Literal

from pydantic import Field, NonNegativeInt

from billing.invoices.runs import RunState
from gateway.api.schemas import Answer, At, Body, NoneIfEmpty
from gateway.fields import Label


class InvoiceRunBody(Body):
    period: Label = Field(description="a month in UTC", examples=["2026-10"])
    organization: Label | None = Field(None, description="null is every organization")


class InvoiceRunAnswer(Answer):
    """`waiting` organizations have invoices that cannot be final yet: calls of the month are open,
    or the writer is not known to be past it."""

    object: Literal["invoice_run"] = "invoice_run"
    id: str = Field(validation_alias="run_id")
    period: str
    organization: NoneIfEmpty = Field(validation_alias="org")
    state: RunState
    done: NonNegativeInt = Field(description="organizations that this pass has been at")
    of: NonNegativeInt = Field(validation_alias="total")
    waiting: NonNegativeInt
    problem: NoneIfEmpty
    created_at: At = Field(validation_alias="created_us")
    changed_at: At = Field(validation_alias="changed_us")
