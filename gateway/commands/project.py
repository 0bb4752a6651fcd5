"""`sluice project`: parts of an organization with keys and limits of their own."""

import click

from gateway.commands import scopes
from gateway.commands.freezing import add_freeze_commands
from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.options import admin_api, as_json, example, quiet
from gateway.commands.terminal.output import fields, print_json, print_rows, show_one

COLUMNS = ("id", "organization", "name", "status", "created_at")


@click.group()
def project() -> None:
    """Projects of an organization. PROJECT is an id, or SLUG/NAME as in reed/web."""


@project.command(epilog=example("sluice project create web --org reed"))
@click.argument("name")
@click.option("--org", required=True, help="Whose it is: an id or a slug.")
@as_json
@quiet
@admin_api
def create(api: AdminApi, name: str, org: str, as_json: bool, quiet: bool) -> None:
    """Make a project."""
    body = {"organization": scopes.organization_id(api, org), "name": name}
    show_one(api.post("/projects", body), as_json=as_json, quiet=quiet)


@project.command("list", epilog=example("sluice project list --org reed"))
@click.option("--org", help="Of this organization alone.")
@as_json
@admin_api
def list_(api: AdminApi, org: str | None, as_json: bool) -> None:
    """List the projects."""
    owner = scopes.organization_id(api, org) if org else None
    answer = api.whole("/projects", organization=owner)
    if as_json:
        print_json(answer)
    else:
        print_rows((fields(row, *COLUMNS) for row in answer["data"]), "there are no projects")


@project.command(epilog=example("sluice project show reed/web"))
@click.argument("reference", metavar="PROJECT")
@as_json
@admin_api
def show(api: AdminApi, reference: str, as_json: bool) -> None:
    """Show one project."""
    show_one(scopes.project(api, reference), as_json=as_json)


add_freeze_commands(project, "project", "/projects", "reed/web")
scopes.add_scope_commands(project, "project", "reed/web")
