"""`sluice invoice`: invoices, made from the ledger, and what is paid of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from billing.charges.trace import every_line_transfer
from billing.invoices import life, months, voids
from billing.invoices import store as rows
from billing.invoices.guards import Guards
from billing.invoices.invoicing import LineKind
from billing.invoices.months import run_invoices
from billing.invoices.result import InvoiceResult
from billing.invoices.store import UnknownInvoice
from billing.invoices.voids import NotIssued, WrongInvoiceStatus
from billing.periods import BadPeriod
from billing.settings import guards_of
from gateway.admin.invoices.schemas import Invoice, LineCall
from gateway.commands.data_folder import Ledger, with_ledger
from gateway.commands.scopes import part
from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.instants import INSTANT
from gateway.commands.terminal.options import admin_api, as_json, changes, example
from gateway.commands.terminal.output import (
    counted,
    fields,
    print_fields,
    print_json,
    print_rows,
    show_one,
)

MICROSECONDS = 1_000_000
BY = "command"


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
            now_us=_now_us(),
            series=ledger.settings.ledger.invoice_series,
            org=org,
            grace_us=ledger.settings.ledger.invoice_grace_us,
            guards=_guards(ledger),
        )
    except BadPeriod as error:
        click.echo(error, err=True)
        return 2
    invoices = [Invoice.model_validate(result).model_dump(mode="json") for result in results]
    print_json({"period": period, "invoices": invoices})
    return 0


@invoice.command(epilog=example("sluice invoice preview --organization org_1 --period 2026-11"))
@click.option("--organization", required=True, help="By its id.")
@click.option("--period", required=True, help="The month in UTC, as YYYY-MM.")
@as_json
@with_ledger
def preview(ledger: Ledger, organization: str, period: str, as_json: bool) -> int:
    """What an invoice would say now. Nothing is written."""
    try:
        result = months.preview(
            ledger.store, organization, period, now_us=_now_us(), guards=_guards(ledger)
        )
    except BadPeriod as error:
        click.echo(error, err=True)
        return 2
    if result is None:
        click.echo(f"{organization} has nothing to bill in {period}", err=True)
        return 1
    return _show(result, as_json)


@invoice.command(epilog=example("sluice invoice issue inv_0a1b"))
@click.argument("invoice_id")
@as_json
@with_ledger
def issue(ledger: Ledger, invoice_id: str, as_json: bool) -> int:
    """Approve a draft and give it its number."""
    words = {"series": ledger.settings.ledger.invoice_series, "guards": _guards(ledger)}
    return _change(life.issue, ledger, invoice_id, as_json, by=BY, **words)


@invoice.command(epilog=example('sluice invoice void inv_0a1b --reason "wrong price"'))
@click.argument("invoice_id")
@click.option("--reason", required=True, help="Why; it is kept.")
@as_json
@with_ledger
def void(ledger: Ledger, invoice_id: str, reason: str, as_json: bool) -> int:
    """Count a final invoice no more. It keeps its number."""
    return _change(voids.void, ledger, invoice_id, as_json, by=BY, reason=reason)


@invoice.command(epilog=example("sluice invoice explain SLU-2026-000001 1 --calls"))
@click.argument("name", metavar="NUMBER|ID")
@click.argument("line", type=click.IntRange(min=1), required=False)
@click.option("--calls", is_flag=True, help="Each charge behind the line, or behind every line.")
@as_json
@with_ledger
def explain(ledger: Ledger, name: str, line: int | None, calls: bool, as_json: bool) -> int:
    """From an invoice to its lines, and from a line to its charges. Exit status 1 where a step does
    not sum to the one before it."""
    with ledger.store.read() as conn:
        row = rows.by_number(conn, name) or {"invoice_id": name}
        result = months.invoice_by_id(conn, row["invoice_id"], _now_us(), _guards(ledger))
    if result is None:
        click.echo(f"there is no {name}", err=True)
        return 2
    answer = Invoice.model_validate(result).model_dump(mode="json")
    lines = [each for each in answer["lines"] if line in (None, each["seq"])]
    if not lines:
        click.echo(f"{name} has no line {line}", err=True)
        return 2
    if line is not None or calls:
        lines = [_explained(ledger, answer, each, calls) for each in lines]
    billed = sum(each["amount_nanousd"] for each in answer["lines"])
    is_equal = billed == result.net_nanousd and all(each.get("equal", True) for each in lines)
    names = ("id", "number", "organization", "period", "status", "net_usd", "tax_usd", "total_usd")
    shown = {**{each: answer[each] for each in names}, "equal": is_equal}
    if as_json:
        print_json({**shown, "lines": lines})
        return 0 if is_equal else 1
    print_fields(shown)
    print_rows([_of_line(each) for each in lines], "it has no line")
    for each in lines:
        if "calls" in each:
            print_rows(each["calls"], f"line {each['seq']} has no charge")
    return 0 if is_equal else 1


def _explained(
    ledger: Ledger, invoice: dict[str, Any], line: dict[str, Any], calls: bool
) -> dict[str, Any]:
    """A line with what its charges sum to. A rounding has none, nor has a term of a draft."""
    charged, count = 0, 0
    shown = []
    for link in every_line_transfer(ledger.store, invoice["id"], line["seq"]):
        charged, count = charged + link["amount_nanousd"], count + 1
        if calls:
            shown.append(LineCall.model_validate(link).model_dump(mode="json"))
    is_booked = line["kind"] != LineKind.ROUNDING and not (line["term"] and not invoice["number"])
    is_equal = (charged, count) == (line["amount_nanousd"], line["transfers"]) or not is_booked
    of_calls = {"calls": shown} if calls else {}
    return {**line, "charges": count, "charged_nanousd": charged, "equal": is_equal, **of_calls}


def _of_line(line: dict[str, Any]) -> dict[str, Any]:
    names = ("project", "model", "service_tier", "component", "grant")
    what = line["description"] or " ".join(line[name] for name in names if line[name])
    shown = {"seq": line["seq"], "kind": line["kind"], "what": what, "quantity": line["quantity"]}
    shown |= {"amount_usd": line["amount_usd"]}
    return shown | {name: line[name] for name in ("charges", "equal") if name in line}


def _guards(ledger: Ledger) -> Guards:
    return guards_of(ledger.settings.ledger, ledger.settings.tax)


def _change(
    change: Callable[..., InvoiceResult],
    ledger: Ledger,
    invoice_id: str,
    as_json: bool,
    **words: Any,
) -> int:
    try:
        result = change(ledger.store, invoice_id, now_us=_now_us(), **words)
    except UnknownInvoice:
        click.echo(f"there is no {invoice_id}", err=True)
        return 1
    except (NotIssued, WrongInvoiceStatus) as wrong:
        click.echo(f"{invoice_id} stays as it is: {wrong}", err=True)
        return 1
    return _show(result, as_json)


def _show(result: InvoiceResult, as_json: bool) -> int:
    answer = Invoice.model_validate(result).model_dump(mode="json")
    if as_json:
        print_json(answer)
        return 0
    names = ("id", "number", "organization", "period", "status", "net_usd", "tax_usd", "total_usd")
    print_fields({name: answer[name] for name in names})
    for reason in answer["draft_because"]:
        click.echo(f"draft: {reason}")
    return 0


def _now_us() -> int:
    return int(time.time() * MICROSECONDS)  # noqa: TID251 - a command's own clock


@invoice.command(
    epilog=example(
        "sluice invoice pay SLU-2026-000001 --amount-usd 118.50 --external-id wire-17",
    )
)
@click.argument("invoice", metavar="NUMBER|ID")
@click.option("--amount-usd", help="Decimal USD, in whole cents.")
@click.option("--amount", help="Instead of it: decimal, in the currency that the invoice shows.")
@click.option("--currency", help="Of --amount, by its ISO code.")
@click.option("--external-id", required=True, help="Under one name it is booked once.")
@click.option("--received-at", type=INSTANT, help="When it came (now).")
@click.option("--note", help="Why, in words.")
@as_json
@admin_api
def pay(api: AdminApi, invoice: str, as_json: bool, **options: Any) -> None:
    """Book a payment that came for an invoice."""
    answer = api.post(f"/invoices/{part(invoice)}/pay", changes(options))
    if as_json:
        print_json(answer)
    else:
        names = ("id", "number", "status", "total_usd", "paid_usd", "due_usd")
        show_one(fields(answer, *names), as_json=False)


@invoice.command(epilog=example("sluice invoice import-payments statement.csv"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@as_json
@admin_api
def import_payments(api: AdminApi, file: Path, as_json: bool) -> None:
    """Book the payments of a bank's CSV, with columns date, amount, text and, if there are any,
    currency and id. Exit status 1 where rows are left for a person."""
    answer = api.post("/payments/import", {"csv": file.read_text(encoding="utf-8-sig")})
    if as_json:
        print_json(answer)
    else:
        new = sum(row["new"] for row in answer["matched"])
        click.echo(f"{counted(new, 'payment')} booked, {len(answer['matched']) - new} known before")
        print_rows(answer["unmatched"], "every row has its invoice")
    raise SystemExit(1 if answer["unmatched"] else 0)


@invoice.command(
    epilog=example(
        "sluice invoice credit SLU-2026-000001 --external-id ticket-4711 --amount-usd 11.90"
        ' --reason "outage"'
    )
)
@click.argument("invoice", metavar="NUMBER|ID")
@click.option("--external-id", help="Under one name it is credited once (the credit itself).")
@click.option("--amount-usd", help="Decimal USD with tax; all that is left unless given.")
@click.option("--reason", required=True, help="Why; it stands on the document.")
@as_json
@admin_api
def credit(api: AdminApi, invoice: str, as_json: bool, **options: Any) -> None:
    """Take back some of an issued invoice, or all, by a credit note."""
    answer = api.post(f"/invoices/{part(invoice)}/credit", changes(options))
    if as_json:
        print_json(answer)
    else:
        names = ("id", "number", "invoice_number", "total_usd", "reason")
        show_one(fields(answer, *names), as_json=False)
