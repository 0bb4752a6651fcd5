"""`sluice credits`: money that an organization has beforehand, in grants."""

from typing import Any

import click

from gateway.commands.scopes import organization_id, part
from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.instants import INSTANT
from gateway.commands.terminal.options import admin_api, as_json, changes, example, quiet
from gateway.commands.terminal.output import fields, print_json, print_rows, show_one

COLUMNS = (
    *("id", "organization", "category", "status", "amount_usd", "remaining_usd"),
    *("effective_at", "expires_at"),
)
ORG = click.argument("reference", metavar="ORG")


@click.group()
def credits() -> None:
    """Credits. ORG is an id or a slug, GRANT the id of a grant."""


@credits.command(
    epilog=example(
        "sluice credits give reed --amount-usd 25 --id topup-1",
        "sluice credits give reed --amount-usd 5 --category promotional --expires-at 2099-12-31",
    )
)
@ORG
@click.option("--amount-usd", required=True, help="Decimal USD.")
@click.option(
    "--category", type=click.Choice(["paid", "promotional"]), default="paid", help="(paid)"
)
@click.option("--id", help="Under one id a grant is given once, however often this is run.")
@click.option("--priority", type=click.INT, help="Lower ones pay first.")
@click.option("--effective-at", type=INSTANT, help="It pays from then on (now).")
@click.option("--expires-at", type=INSTANT, help="It pays until then (always).")
@click.option("--model", "models", multiple=True, help="It pays for this model; repeatable (any).")
@click.option("--note", help="Why, in words.")
@as_json
@quiet
@admin_api
def give(api: AdminApi, reference: str, as_json: bool, quiet: bool, **options: Any) -> None:
    """Give an organization credit."""
    body = {"organization": organization_id(api, reference)} | changes(options)
    show_one(api.post("/credits", body), as_json=as_json, quiet=quiet)


@credits.command("top-up", epilog=example("sluice credits top-up reed 25 --external-id wire-17"))
@ORG
@click.argument("amount_usd", metavar="USD")
@click.option("--external-id", required=True, help="Under one name it is booked once.")
@click.option("--received-at", type=INSTANT, help="When it came (now).")
@click.option("--note", help="Why, in words.")
@as_json
@admin_api
def top_up(api: AdminApi, reference: str, as_json: bool, **options: Any) -> None:
    """Book USD that came for no invoice: it becomes paid credit and a receipt."""
    path = f"/organizations/{part(organization_id(api, reference))}/top-ups"
    show_one(api.post(path, changes(options)), as_json=as_json)


@credits.command("list", epilog=example("sluice credits list --org reed"))
@click.option("--org", help="Of this organization alone.")
@as_json
@admin_api
def list_(api: AdminApi, org: str | None, as_json: bool) -> None:
    """List the grants with what each still has, the oldest first."""
    owner = organization_id(api, org) if org else None
    answer = api.whole("/credits", organization=owner)
    if as_json:
        print_json(answer)
    else:
        print_rows((fields(row, *COLUMNS) for row in answer["data"]), "there are no grants")


@credits.command(epilog=example("sluice credits void topup-1"))
@click.argument("grant")
@as_json
@admin_api
def void(api: AdminApi, grant: str, as_json: bool) -> None:
    """End a grant a few seconds from now."""
    show_one(api.post(f"/credits/{part(grant)}/void", {}), as_json=as_json)


@credits.command(
    epilog=example(
        "sluice credits alerts reed --below-usd 5 --below-percent 50",
        "sluice credits alerts reed",
    )
)
@ORG
@click.option("--below-usd", multiple=True, help="Tell when less than this is left; repeatable.")
@click.option("--below-percent", type=click.INT, multiple=True, help="The same, as a share.")
@click.option("--none", "nothing", is_flag=True, help="Tell of nothing any more.")
@as_json
@admin_api
def alerts(
    api: AdminApi,
    reference: str,
    below_usd: tuple[str, ...],
    below_percent: tuple[int, ...],
    nothing: bool,
    as_json: bool,
) -> None:
    """Show below what an operator is told of an organization's credit, or set all of it."""
    if nothing and (below_usd or below_percent):
        raise click.UsageError("--none stands alone")
    path = f"/organizations/{part(organization_id(api, reference))}/credit-alerts"
    if nothing or below_usd or below_percent:
        body = {"below_usd": list(below_usd), "below_percent": list(below_percent)}
        show_one(api.put(path, body), as_json=as_json)
    else:
        show_one(api.get(path), as_json=as_json)
