"""`sluice org`: organizations, the tenants who are invoiced."""

import re
from typing import Any

import click

from gateway.commands.freezing import add_freeze_commands
from gateway.commands.scopes import add_scope_commands, organization, organization_id, part
from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.options import OrNone, admin_api, as_json, changes, example, quiet
from gateway.commands.terminal.output import fields, print_json, print_rows, show_one

ORG = click.argument("reference", metavar="ORG")
COLUMNS = ("id", "slug", "name", "status", "settlement_mode", "credit_limit_usd", "created_at")


@click.group()
def org() -> None:
    """Organizations: who is invoiced. ORG is an id or a slug."""


def terms(command: Any) -> Any:
    """What an organization bought, and how it pays."""
    for option in (
        click.option(
            "--tier",
            type=OrNone(click.STRING),
            help="What it bought, in your words: tenant.tier of routing policies.",
        ),
        click.option(
            "--insufficient-quota-status",
            type=click.Choice(["429", "402"]),
            help="Of calls that its money does not cover.",
        ),
        click.option(
            "--credit-limit-usd",
            type=OrNone(click.STRING),
            help="The most it may owe beyond its credits.",
        ),
        click.option(
            "--settlement-mode",
            type=click.Choice(["postpaid", "prepaid"]),
            help="prepaid: it spends what its credits cover.",
        ),
    ):
        command = option(command)
    return command


@org.command(epilog=example("sluice org create Reed", "sluice org create 'Reed & Co' --slug reed"))
@click.argument("name")
@click.option("--slug", help="Letters, digits and '-' (default: made from the name).")
@terms
@as_json
@quiet
@admin_api
def create(
    api: AdminApi, name: str, slug: str | None, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Make an organization."""
    row = api.post(
        "/organizations", {"name": name, "slug": slug or slug_of(name)} | _terms(options)
    )
    show_one(row, as_json=as_json, quiet=quiet)


@org.command("list", epilog=example("sluice org list"))
@as_json
@admin_api
def list_(api: AdminApi, as_json: bool) -> None:
    """List the organizations."""
    answer = api.whole("/organizations")
    if as_json:
        print_json(answer)
    else:
        print_rows((fields(row, *COLUMNS) for row in answer["data"]), "there are no organizations")


@org.command(epilog=example("sluice org show reed"))
@ORG
@as_json
@admin_api
def show(api: AdminApi, reference: str, as_json: bool) -> None:
    """Show one organization."""
    show_one(organization(api, reference), as_json=as_json)


@org.command(
    "set",
    epilog=example(
        "sluice org set reed --settlement-mode prepaid --credit-limit-usd 10",
        "sluice org set reed --tier gold",
    ),
)
@ORG
@terms
@as_json
@admin_api
def set_(api: AdminApi, reference: str, as_json: bool, **options: Any) -> None:
    """Change its tier, or how it pays; what is not named stays."""
    if not (body := _terms(options)):
        raise click.UsageError("say what to change")
    path = f"/organizations/{part(organization_id(api, reference))}"
    show_one(api.patch(path, body), as_json=as_json)


add_freeze_commands(org, "org", "/organizations", "reed")
add_scope_commands(org, "org", "reed")


def slug_of(name: str) -> str:
    """`Reed & Co` is reed-co."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63]
    if not slug:
        raise click.UsageError(f"no slug can be made from {name!r}: say --slug")
    return slug


def _terms(options: dict[str, Any]) -> dict[str, Any]:
    body = changes(options)
    if status := body.get("insufficient_quota_status"):
        body["insufficient_quota_status"] = int(status)
    return body
