"""`sluice budget`: how much may be spent, by whom and in which time."""

from typing import Any
from urllib.parse import quote

import click

from gateway.commands.scopes import organization_id, part, scope
from gateway.commands.terminal.admin_api import AdminApi, Refused
from gateway.commands.terminal.options import admin_api, as_json, changes, example, quiet
from gateway.commands.terminal.output import print_fields, print_json, print_rows, without

BUDGET = click.argument("reference", metavar="BUDGET")
KINDS = ["total", "day", "week", "month", "year", "rolling"]
ALERTS = click.option(
    "--alert", "alerts", type=click.INT, multiple=True, help="Tell at this percentage; repeatable."
)


@click.group()
def budget() -> None:
    """Budgets. SCOPE is org:SLUG, project:SLUG/NAME or key:ID; with /user:NAME of one end user of
    it, with /user:* of each. BUDGET is an id, or the scope of a budget made by `set`."""


@budget.command(
    epilog=example(
        "sluice budget create org:reed --limit-usd 5 --window day --alert 80",
        "sluice budget create project:reed/web --limit-usd 0.50 --window rolling --seconds 3600",
        "sluice budget create 'org:reed/user:*' --limit-usd 1 --name trial",
    )
)
@click.argument("of", metavar="SCOPE")
@click.option("--limit-usd", required=True, help="Decimal USD, as in 5 or 0.50.")
@click.option(
    "--window", type=click.Choice(KINDS), default="month", help="When it begins anew (month)."
)
@click.option("--time-zone", help="Of a day, week, month or year, as in Europe/Berlin (UTC).")
@click.option("--anchor", help="A local time at which periods begin, as in 2026-01-31T09:00:00.")
@click.option("--seconds", type=click.INT, help="Of a rolling window.")
@click.option("--name", help="What it is called (default: the window).")
@click.option("--soft", is_flag=True, help="Watch and tell, and refuse nothing.")
@ALERTS
@as_json
@quiet
@admin_api
def create(
    api: AdminApi,
    of: str,
    limit_usd: str,
    window: str,
    name: str | None,
    soft: bool,
    alerts: tuple[int, ...],
    as_json: bool,
    quiet: bool,
    **clock: Any,
) -> None:
    """Make a budget. A call that it does not cover is refused with 429 insufficient_quota."""
    if (window == "rolling") != (clock["seconds"] is not None):
        raise click.UsageError("--window rolling needs --seconds, and no other window has them")
    body = {
        "scope": scope(api, of),
        "name": name or window,
        "limit_usd": limit_usd,
        "window": {"kind": window} | changes(clock),
        "hard": not soft,
        "alerts": list(alerts),
    }
    _show(api.post("/budgets", body), as_json=as_json, quiet=quiet)


@budget.command("list", epilog=example("sluice budget list --org reed"))
@click.option("--org", help="Of this organization alone, its projects and keys included.")
@as_json
@admin_api
def list_(api: AdminApi, org: str | None, as_json: bool) -> None:
    """List the budgets with what is spent and left of each."""
    answer = api.whole("/budgets")
    if org:
        scopes = _scopes_of(api, organization_id(api, org))
        rows = [row for row in answer["data"] if row["scope"].split("/user:")[0] in scopes]
        answer = answer | {"data": rows}
    if as_json:
        print_json(answer)
    else:
        print_rows(map(_columns, answer["data"]), "there are no budgets")


@budget.command(epilog=example("sluice budget show org:reed"))
@BUDGET
@click.option("--user", help="How a budget of each end user stands for this one.")
@as_json
@admin_api
def show(api: AdminApi, reference: str, user: str | None, as_json: bool) -> None:
    """Show one budget and what is spent, held and left of it."""
    if ":" not in reference:
        row = api.get(f"/budgets/{part(reference)}", end_user=user)
    else:
        row = _of_scope(api, scope(api, reference))
    _show(row, as_json=as_json)


@budget.command(
    "set",
    epilog=example(
        "sluice budget set project:reed/web --limit-usd 5 --window month",
        "sluice budget set budget_01 --limit-usd 7.50 --alert 50 --alert 90",
    ),
)
@BUDGET
@click.option("--limit-usd", help="Decimal USD.")
@click.option("--window", type=click.Choice(["total", "month"]), help="Of a scope's own budget.")
@click.option("--name", help="Of a budget with an id.")
@ALERTS
@as_json
@admin_api
def set_(
    api: AdminApi,
    reference: str,
    limit_usd: str | None,
    window: str | None,
    name: str | None,
    alerts: tuple[int, ...],
    as_json: bool,
) -> None:
    """Change a budget by its id, or make or change the one that a scope has."""
    if ":" in reference:
        if limit_usd is None or name is not None or alerts:
            raise click.UsageError("the budget of a scope has --limit-usd and --window")
        body = changes({"limit_usd": limit_usd, "window": window})
        row = api.put(f"/budgets/{quote(scope(api, reference), safe=':')}", body)
    else:
        if window is not None:
            raise click.UsageError("the window of a budget never changes: make another budget")
        body = changes({"limit_usd": limit_usd, "name": name, "alerts": list(alerts) or None})
        if not body:
            raise click.UsageError("say what to change")
        row = api.patch(f"/budgets/{part(reference)}", body)
    _show(row, as_json=as_json)


@budget.command(epilog=example("sluice budget delete project:reed/web"))
@BUDGET
@as_json
@admin_api
def delete(api: AdminApi, reference: str, as_json: bool) -> None:
    """End a budget: it binds nothing any more. What it counted stays."""
    if ":" in reference:
        of = scope(api, reference)
        _of_scope(api, of)
        row = api.put(f"/budgets/{quote(of, safe=':')}", {"limit_usd": None})
    else:
        row = api.delete(f"/budgets/{part(reference)}")
    _show(row, as_json=as_json)


@budget.command(epilog=example("sluice budget alerts --org reed"))
@click.option("--org", help="Of this organization alone.")
@as_json
@admin_api
def alerts(api: AdminApi, org: str | None, as_json: bool) -> None:
    """List what was told when budgets filled, the newest first."""
    owner = organization_id(api, org) if org else None
    answer = api.whole("/budgets/alerts", organization=owner)
    if as_json:
        print_json(answer)
    else:
        print_rows((without(row, "object") for row in answer["data"]), "there are no alerts")


def _of_scope(api: AdminApi, of: str) -> dict[str, Any]:
    """The one that the limits of a scope have. Raises Refused."""
    rows = [row for row in api.rows("/budgets") if row["scope"] == of]
    for row in rows:
        if "id" not in row:
            return row
    hint = f" Name one by its id: {', '.join(row['id'] for row in rows)}." if rows else ""
    raise Refused(f"{of} has no budget of its own.{hint}")


def _scopes_of(api: AdminApi, organization: str) -> set[str]:
    projects = api.rows("/projects", organization=organization)
    keys = [row for row in api.rows("/keys") if row["organization"] == organization]
    return {
        f"org:{organization}",
        *(f"project:{row['id']}" for row in projects),
        *(f"key:{row['id']}" for row in keys),
    }


def _show(row: dict[str, Any], *, as_json: bool, quiet: bool = False) -> None:
    if as_json:
        print_json(row)
    elif quiet:
        click.echo(row["id"])
    else:
        window = {"window": _window(row["window"])}
        print_fields(without(row, "object", "state") | window | (row.get("state") or {}))


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    state = row.get("state") or row
    return {
        "id": row.get("id"),
        "scope": row["scope"],
        "name": row.get("name"),
        "window": _window(row["window"]),
        "hard": row.get("hard", True),
        "limit_usd": row["limit_usd"],
        "spent_usd": state.get("spent_usd"),
        "held_usd": state.get("held_usd"),
        "resets_at": state.get("resets_at"),
    }


def _window(window: dict[str, Any] | str) -> str:
    """`week Europe/Berlin`; that of a scope's own budget is a word already."""
    if isinstance(window, str):
        return window
    if window["kind"] == "rolling":
        return f"last {window['seconds']} s"
    zone = window.get("time_zone", "UTC")
    return str(window["kind"]) if zone == "UTC" else f"{window['kind']} {zone}"
