"""Organizations, projects and keys as people name them, and what belongs to all three: limits and
entitlements."""

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any
from urllib.parse import quote

import click

from billing.limits.types import CallLimits
from gateway.commands.terminal.admin_api import AdminApi, Refused
from gateway.commands.terminal.options import OrNone, admin_api, as_json, changes, example
from gateway.commands.terminal.output import print_fields, print_json, print_rows, without

LIMITS = tuple(limit.name for limit in fields(CallLimits))
MAY_USE = {
    "models": ("--model", "May use this model."),
    "tiers": ("--tier", "May use this tier: priority, default, flex."),
    "capacity_classes": (
        "--capacity-class",
        "May run on this one: reserved, on_demand, spot, external.",
    ),
    "regions": ("--region", "May run on pools of this region alone, for example eu-central."),
    "pools": ("--pool", "May run on this pool."),
}
"""What an entitlement lists, by the API's name: the option and its help."""
UNRESTRICTED = dict.fromkeys((*MAY_USE, "data_collection"))
ANY = "any"
"""The word that takes a restriction away."""
NARROW = re.compile(r"/(?=(?:model|user):)")


def part(text: str) -> str:
    """As one part of a path."""
    return quote(text, safe=":")


def organization_id(api: AdminApi, reference: str) -> str:
    """Of an id or a slug. Raises Refused."""
    return str(organization(api, reference)["id"])


def organization(api: AdminApi, reference: str) -> dict[str, Any]:
    for row in api.rows("/organizations"):
        if reference in (row["id"], row["slug"]):
            return row
    raise Refused(f"There is no organization '{reference}': name it by its id or its slug.")


def project(api: AdminApi, reference: str) -> dict[str, Any]:
    """By its id, or as ORGANIZATION/NAME. Raises Refused."""
    owner, _, name = reference.rpartition("/")
    rows = api.rows("/projects", organization=organization_id(api, owner) if owner else None)
    matches = [row for row in rows if row["id"] == reference or (owner and row["name"] == name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        ids = ", ".join(row["id"] for row in matches)
        raise Refused(f"Several projects are '{reference}': name one by its id, {ids}.")
    raise Refused(f"There is no project '{reference}': name it by its id or as SLUG/NAME.")


def key(api: AdminApi, reference: str) -> dict[str, Any]:
    for row in api.rows("/keys"):
        if row["id"] == reference:
            return row
    raise Refused(f"There is no key '{reference}': name it by its id, key_...")


FINDERS: dict[str, Callable[[AdminApi, str], dict[str, Any]]] = {
    "org": organization,
    "project": project,
    "key": key,
}


def scope(api: AdminApi, text: str) -> str:
    """`org:reed/user:ann` with the id in the place of the slug. Raises Refused."""
    owner, *narrow = NARROW.split(text, maxsplit=1)
    kind, _, reference = owner.partition(":")
    if kind not in FINDERS or not reference:
        raise Refused(f"'{text}' is no scope: write org:SLUG, project:SLUG/NAME or key:ID.")
    return "/".join([f"{kind}:{FINDERS[kind](api, reference)['id']}", *narrow])


def add_scope_commands(group: click.Group, kind: str, sample: str) -> None:
    """`limits` and `entitlements` of one noun; `sample` names one in the examples."""
    group.add_command(_limits(kind, sample))
    group.add_command(_entitlements(kind, sample))


def _limits(kind: str, sample: str) -> click.Command:
    @admin_api
    def limits(
        api: AdminApi,
        reference: str,
        model: str | None,
        user: str | None,
        as_json: bool,
        **options: Any,
    ) -> None:
        """Show the limits, or set those that are named; `none` takes one away."""
        if model and user:
            raise click.UsageError("--model and --user are limits apart: name one of them")
        owner = f"{kind}:{FINDERS[kind](api, reference)['id']}"
        narrow = f"/model:{model}" if model else f"/user:{user}" if user else ""
        if body := changes(options):
            row = api.patch(f"/limits/{quote(owner + narrow, safe=':/')}", body)
            print_json(row) if as_json else print_fields(without(row, "object"))
            return
        answer = api.whole("/limits")
        limits_of_owner = [row for row in answer["data"] if row["scope"].split("/")[0] == owner]
        full_scope = owner + narrow
        limits_of_owner = [
            row for row in limits_of_owner if not narrow or row["scope"] == full_scope
        ]
        if as_json:
            print_json(answer | {"data": limits_of_owner})
        else:
            print_rows(map(_limits_set, limits_of_owner), f"{full_scope} has no limits")

    limits = click.option("--model", help="Limits of one model within it.")(as_json(limits))
    limits = click.option("--user", help="Limits of one end user, or of every one: '*'.")(limits)
    for name in reversed(LIMITS):
        limits = click.option(f"--{name.replace('_', '-')}", type=OrNone(click.INT))(limits)
    limits = click.argument("reference", metavar=kind.upper())(limits)
    shown = example(
        f"sluice {kind} limits {sample} --requests-per-minute 60 --concurrency 8",
        f"sluice {kind} limits {sample} --model sluice-small --tokens-per-minute 20000",
        f"sluice {kind} limits {sample} --concurrency none",
    )
    return click.command("limits", epilog=shown)(limits)


def _limits_set(row: dict[str, Any]) -> dict[str, Any]:
    """One line a scope: nine columns would not fit, and most are empty."""
    limits = {name: row[name] for name in LIMITS if row.get(name) is not None}
    return {"scope": row["scope"], "limits": limits}


def _entitlements(kind: str, sample: str) -> click.Command:
    @admin_api
    def entitlements(
        api: AdminApi,
        reference: str,
        as_json: bool,
        data_collection: str | None,
        **options: tuple[str, ...],
    ) -> None:
        """Show what it may use, or restrict it; `any` takes a restriction away."""
        owner = f"{kind}:{FINDERS[kind](api, reference)['id']}"
        body: dict[str, Any] = {
            name: _list(name, values) for name, values in options.items() if values
        }
        if data_collection is not None:
            body["data_collection"] = None if data_collection == ANY else data_collection
        if body:
            row = api.patch(f"/entitlements/{part(owner)}", body)
        else:
            rows = [row for row in api.rows("/entitlements") if row["scope"] == owner]
            row = rows[0] if rows else {"object": "entitlement", "scope": owner} | UNRESTRICTED
        if as_json:
            print_json(row)
        else:
            shown = without(row, "object")
            print_fields({k: ANY if v is None else v for k, v in shown.items()})

    entitlements = click.option(
        "--data-collection",
        type=click.Choice(["deny", "allow", ANY]),
        help="deny: never where prompts may be kept or trained on.",
    )(as_json(entitlements))
    for name, (option, words) in reversed(MAY_USE.items()):
        entitlements = click.option(option, name, multiple=True, help=words)(entitlements)
    entitlements = click.argument("reference", metavar=kind.upper())(entitlements)
    shown = example(
        f"sluice {kind} entitlements {sample} --model sluice-small --tier default --tier flex",
        f"sluice {kind} entitlements {sample} --data-collection deny",
        f"sluice {kind} entitlements {sample} --model any",
    )
    return click.command("entitlements", epilog=shown)(entitlements)


def _list(name: str, values: tuple[str, ...]) -> list[str] | None:
    if values == (ANY,):
        return None
    if ANY in values:
        raise click.UsageError(f"'any' stands alone: it takes the restriction of {name} away")
    return list(values)
