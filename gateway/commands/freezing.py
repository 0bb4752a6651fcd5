"""`freeze` and `unfreeze` of an organization or a project."""

import click

from gateway.commands.scopes import FINDERS, part
from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.options import admin_api, as_json, example
from gateway.commands.terminal.output import show_one

VERBS = {
    "freeze": ("frozen", "Refuse its calls, until it is unfrozen; nothing is lost."),
    "unfreeze": ("active", "Take its calls again."),
}


def add_freeze_commands(group: click.Group, kind: str, path: str, sample: str) -> None:
    """`path` is the admin API's of that noun; `sample` names one in the examples."""
    for verb in VERBS:
        group.add_command(_command(verb, kind, path, sample))


def _command(verb: str, kind: str, path: str, sample: str) -> click.Command:
    status, says = VERBS[verb]

    @as_json
    @admin_api
    def change(api: AdminApi, reference: str, as_json: bool) -> None:
        row_id = FINDERS[kind](api, reference)["id"]
        row = api.patch(f"{path}/{part(row_id)}", {"status": status})
        show_one(row, as_json=as_json)

    with_reference = click.argument("reference", metavar=kind.upper())(change)
    return click.command(verb, help=says, epilog=example(f"sluice {kind} {verb} {sample}"))(
        with_reference
    )
