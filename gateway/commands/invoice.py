"""`sluice invoice`: invoices, made from the ledger."""

from __future__ import annotations

import time

import click

from billing.invoices.months import run_invoices
from billing.periods import BadPeriod
from gateway.admin.invoices.schemas import Invoice
from gateway.commands.data_folder import Ledger, with_ledger
from gateway.commands.terminal.options import example
from gateway.commands.terminal.output import print_json

MICROSECONDS = 1_000_000


@click.group()
def invoice() -> None:
    """Invoices, made from the ledger."""


@invoice.command(epilog=example("sluice invoice run --period 2026-11"))
@click.option("--period", required=True, help="The month in UTC, as YYYY-MM.")
@click.option("--org", help="Only this organization, by its id.")
@with_ledger
def run(ledger: Ledger, period: str, org: str | None) -> int:
    """Write the invoices of a month: drafts while it is open, final ones afterwards."""
    try:
        results = run_invoices(
            ledger.store,
            period,
            now_us=int(time.time() * MICROSECONDS),  # noqa: TID251 - a command's own clock
            series=ledger.settings.ledger.invoice_series,
            org=org,
        )
    except BadPeriod as error:
        click.echo(error, err=True)
        return 2
    invoices = [Invoice.model_validate(result).model_dump(mode="json") for result in results]
    print_json({"period": period, "invoices": invoices})
    return 0
