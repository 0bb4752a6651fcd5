"""`sluice provider`: accounts with providers, and their bills."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gateway.commands.scopes import part
from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.options import admin_api, as_json, example
from gateway.commands.terminal.output import fields, print_json, print_rows

ROW = ("name", "state", "reason", "next_probe_at", "spend_usd")
LINE = ("day", "model", "billed_usd", "booked_usd", "posted_before_usd", "variance_usd")


@click.group()
def provider() -> None:
    """Accounts with providers: their keys by name, and their bills."""


@provider.command("list", epilog=example("sluice provider list"))
@as_json
@admin_api
def list_(api: AdminApi, as_json: bool) -> None:
    """List providers, how they are, and what was spent this month."""
    answer = api.whole("/providers")
    if as_json:
        print_json(answer)
        return
    rows = [fields(row, *ROW) | {"keys": len(row["keys"])} for row in answer["data"]]
    print_rows(rows, "no pool has a provider")


@provider.command(
    epilog=example(
        "sluice provider reconcile bill.csv --provider acme --dry-run",
        "sluice provider reconcile bill.csv --provider acme",
    )
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--provider", "name", help="Whose bill it is; left out where there is one alone.")
@click.option("--dry-run", is_flag=True, help="Compare, and post nothing.")
@as_json
@admin_api
def reconcile(api: AdminApi, file: Path, name: str | None, dry_run: bool, as_json: bool) -> None:
    """Compare a provider's bill with what was booked, and post what differs.

    The bill is CSV with the columns day, model, usage_class, quantity and amount (USD). A file is
    posted once.
    """
    try:
        text = file.read_text("utf-8-sig")
    except OSError as missing:
        raise click.ClickException(f"{file}: {missing.strerror}") from missing
    except UnicodeDecodeError as wrong:
        raise click.ClickException(f"{file} is no text in UTF-8") from wrong
    path = f"/providers/{part(name or _only_provider(api))}/reconciliations"
    answer = api.post(path, {"file": text, "dry_run": dry_run})
    if as_json:
        print_json(answer)
        return
    print_rows((fields(line, *LINE) for line in answer["lines"]), "nothing to compare")
    click.echo(_verdict(answer))


def _verdict(answer: Mapping[str, Any]) -> str:
    sums = (
        f"billed {answer['billed_usd']} USD, booked {answer['booked_usd']} USD,"
        f" variance {answer['variance_usd']} USD"
    )
    if answer["posted_at"] is None:
        return f"{sums}: nothing was posted"
    return f"{sums}: posted {'now' if answer['is_new'] else 'already at ' + answer['posted_at']}"


def _only_provider(api: AdminApi) -> str:
    """Raises ClickException."""
    names = [row["name"] for row in api.rows("/providers")]
    if len(names) == 1:
        return str(names[0])
    there = ", ".join(names) or "none"
    raise click.ClickException(f"say whose bill it is by --provider; there are: {there}")
