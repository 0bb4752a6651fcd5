"""`sluice books`: the journal of a month, and what organizations owe."""

import click

from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.options import admin_api, as_json, example
from gateway.commands.terminal.output import print_json, print_rows, show_one


@click.group()
def books() -> None:
    """The books: the journal of a month, and what organizations owe."""


@books.command(
    epilog=example(
        "sluice books journal --period 2026-11",
        "sluice books journal --period 2026-11 --format beancount",
    )
)
@click.option("--period", required=True, help="The month in UTC, as YYYY-MM.")
@click.option(
    "--format", "form", type=click.Choice(["csv", "beancount"]), default="csv", help="(csv)"
)
@admin_api
def journal(api: AdminApi, period: str, form: str) -> None:
    """Print what moved in a month, by day and pair of accounts."""
    click.echo(api.ask("GET", f"/books/journal.{form}", {"period": period}).text, nl=False)


@books.command("close", epilog=example("sluice books close 2026-10"))
@click.argument("period", metavar="YYYY-MM")
@as_json
@admin_api
def close_books(api: AdminApi, period: str, as_json: bool) -> None:
    """Close a month for good: nothing is posted to it any more."""
    show_one(api.post(f"/books/periods/{period}/close", {}), as_json=as_json)


@books.command("closed", epilog=example("sluice books closed"))
@as_json
@admin_api
def closed_months(api: AdminApi, as_json: bool) -> None:
    """List the months whose books are closed."""
    answer = api.whole("/books/periods")
    if as_json:
        print_json(answer)
    else:
        print_rows(answer["data"], "no month is closed")


@books.command(epilog=example("sluice books receivables"))
@as_json
@admin_api
def receivables(api: AdminApi, as_json: bool) -> None:
    """Print what is due, by organization and by how long it is overdue."""
    answer = api.whole("/books/receivables")
    if as_json:
        print_json(answer)
    else:
        print_rows(answer["data"], "nobody owes anything")
