"""`sluice key`: API keys. A secret is printed once, when it is made."""

from typing import Any

import click

from gateway.commands import scopes
from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.instants import INSTANT
from gateway.commands.terminal.options import admin_api, as_json, example
from gateway.commands.terminal.output import (
    fields,
    print_fields,
    print_json,
    print_rows,
    show_one,
    without,
)

COLUMNS = ("id", "project", "name", "redacted", "created_at", "expires_at", "revoked_at")
KEY = click.argument("reference", metavar="KEY")
secret_alone = click.option(
    "--quiet", "-q", is_flag=True, help="Print the secret alone, for a variable or a file."
)


@click.group()
def key() -> None:
    """API keys of a project. KEY is an id, key_..."""


@key.command(
    epilog=example(
        "sluice key create first --project reed/web",
        "sluice key create trial --project reed/web --expires-at 2099-12-31T00:00:00Z --quiet",
    )
)
@click.argument("name")
@click.option("--project", required=True, help="Whose it is: an id, or SLUG/NAME.")
@click.option("--expires-at", type=INSTANT, help="It works until then.")
@as_json
@secret_alone
@admin_api
def create(
    api: AdminApi, name: str, project: str, expires_at: int | None, as_json: bool, quiet: bool
) -> None:
    """Make a key and print its secret, this once."""
    body: dict[str, Any] = {"project": scopes.project(api, project)["id"], "name": name}
    if expires_at is not None:
        body["expires_at"] = expires_at
    _show_secret(api.post("/keys", body), as_json=as_json, quiet=quiet)


@key.command("list", epilog=example("sluice key list --project reed/web"))
@click.option("--project", help="Of this project alone.")
@as_json
@admin_api
def list_(api: AdminApi, project: str | None, as_json: bool) -> None:
    """List the keys; nobody can read a secret again."""
    owner = scopes.project(api, project)["id"] if project else None
    answer = api.whole("/keys", project=owner)
    if as_json:
        print_json(answer)
    else:
        print_rows((fields(row, *COLUMNS) for row in answer["data"]), "there are no keys")


@key.command(epilog=example("sluice key show key_default"))
@KEY
@as_json
@admin_api
def show(api: AdminApi, reference: str, as_json: bool) -> None:
    """Show one key."""
    show_one(scopes.key(api, reference), as_json=as_json)


@key.command(epilog=example("sluice key rotate key_default --overlap-s 3600"))
@KEY
@click.option(
    "--overlap-s",
    type=click.FloatRange(min=0),
    default=0.0,
    help="How long the old secret still works, in seconds (default 0).",
)
@as_json
@secret_alone
@admin_api
def rotate(api: AdminApi, reference: str, overlap_s: float, as_json: bool, quiet: bool) -> None:
    """Give a key a new secret; its limits and what it spent stay."""
    row = api.post(f"/keys/{scopes.part(reference)}/rotate", {"overlap_s": overlap_s})
    _show_secret(row, as_json=as_json, quiet=quiet)


@key.command(epilog=example("sluice key revoke key_default"))
@KEY
@as_json
@admin_api
def revoke(api: AdminApi, reference: str, as_json: bool) -> None:
    """End a key for good: every gateway refuses it within five seconds."""
    show_one(api.delete(f"/keys/{scopes.part(reference)}"), as_json=as_json)


scopes.add_scope_commands(key, "key", "key_default")


def _show_secret(row: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
    if as_json:
        print_json(row)
    elif quiet:
        click.echo(row["secret"])
    else:
        print_fields(without(row, "object", "redacted", "revoked_at"))
        click.echo("The secret is shown this once. Only its hash is kept.", err=True)
