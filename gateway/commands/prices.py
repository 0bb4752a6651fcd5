"""`sluice prices`: the versions of the price book and what they say."""

from typing import Any

import click

from gateway.commands.scopes import part
from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.options import admin_api, as_json, example
from gateway.commands.terminal.output import fields, print_json, print_rows

VERSION = ("id", "status", "organization", "effective_from", "created_at", "created_by", "note")
RATE = ("model", "tier", "batch", "component", "usd_per_mtok", "prompt_from_tokens")


@click.group()
def prices() -> None:
    """Prices: versions of one book, each with all of its rates."""


@prices.command("list", epilog=example("sluice prices list"))
@as_json
@admin_api
def list_(api: AdminApi, as_json: bool) -> None:
    """List the versions, the oldest first."""
    answer = api.whole("/prices")
    if as_json:
        print_json(answer)
    else:
        print_rows((fields(row, *VERSION) for row in answer["data"]), "there are no prices")


@prices.command(epilog=example("sluice prices show", "sluice prices show --model sluice-small"))
@click.argument("version", required=False)
@click.option("--model", help="Of this model alone.")
@as_json
@admin_api
def show(api: AdminApi, version: str | None, model: str | None, as_json: bool) -> None:
    """Show the rates of a version: that in force for everybody, unless one is named."""
    row = api.get(f"/prices/{part(version)}") if version else _in_force(api.rows("/prices"))
    if as_json:
        print_json(row)
        return
    rates = [fields(rate, *RATE) for rate in row["rates"] if model in (None, rate["model"])]
    click.echo(f"version {row['id']}, {row['status']}")
    print_rows(rates, "there are no rates")


def _in_force(versions: list[dict[str, Any]]) -> dict[str, Any]:
    """Raises ClickException."""
    from datetime import UTC, datetime

    now = datetime.now(UTC)  # noqa: TID251 composition root
    in_force = [
        row
        for row in versions
        if row["status"] == "active"
        and not row["organization"]
        and datetime.fromisoformat(row["effective_from"]) <= now
    ]
    if not in_force:
        raise click.ClickException("no prices are in force")
    return max(in_force, key=lambda row: datetime.fromisoformat(row["effective_from"]))
