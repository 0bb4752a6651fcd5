"""`sluice usage`: what was used and what it costs, summed by hour from the ledger."""

import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import click

from gateway.commands.scopes import organization_id
from gateway.commands.terminal.admin_api import AdminApi, Refused
from gateway.commands.terminal.instants import INSTANT, PERIOD, SPAN
from gateway.commands.terminal.options import admin_api, as_json, example
from gateway.commands.terminal.output import print_json, print_rows

PATH = "/usage"
DIMENSIONS = [
    *("org", "project", "key", "model", "tier", "pool", "status", "batch"),
    *("day", "hour"),
]
WIDTHS = {"hour": "1h", "day": "1d"}
NEXT = "x-sluice-next-page"
COUNTS = ("requests", "input", "cached_input", "output")


@click.command(
    epilog=example(
        "sluice usage --period 2026-11",
        "sluice usage --since 24h --org reed --by model --every hour",
        "sluice usage --period 2026-11 --by org --by model --csv > usage.csv",
    )
)
@click.option("--org", help="Of this organization alone: an id or a slug.")
@click.option("--period", type=PERIOD, help="A month or a day in UTC: 2026-11, 2026-11-22.")
@click.option("--since", type=SPAN, help="Until now: 90m, 24h, 7d.")
@click.option("--from", "from_s", type=INSTANT, help="The first instant, as in 2026-11-22T18:00Z.")
@click.option("--to", "to_s", type=INSTANT, help="The first instant after it.")
@click.option(
    "--by",
    type=click.Choice(DIMENSIONS),
    multiple=True,
    help="A row for each of these; repeatable (default: org and model).",
)
@click.option("--every", type=click.Choice(list(WIDTHS)), help="A row for every hour or day, too.")
@as_json
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, with a line of names.")
@admin_api
def usage(
    api: AdminApi,
    org: str | None,
    period: tuple[int, int] | None,
    since: int | None,
    from_s: int | None,
    to_s: int | None,
    by: tuple[str, ...],
    every: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show tokens, calls and money of all calls that ended in a time, by default the last thirty
    days. The sums are of whole hours in UTC and a moment behind the calls."""
    if as_json and as_csv:
        raise click.UsageError("--json and --csv are two answers: say one")
    now_s = int(time.time())  # noqa: TID251 composition root
    begin, end = _interval(period, since, from_s, to_s, now_s)
    query: dict[str, Any] = {
        "organization": organization_id(api, org) if org else None,
        "start_time": begin,
        "end_time": end,
        "group_by": by or ("org", "model"),
        "bucket_width": WIDTHS[every] if every else None,
    }
    if as_csv:
        for line in _csv_lines(api, query):
            click.echo(line)
        return
    answer = api.whole(PATH, **query)
    if as_json:
        print_json(answer)
    else:
        rows = _by_slug(api, [_columns(row) for row in answer["data"]])
        span = f"{answer['from'][:16]}Z to {answer['to'][:16]}Z".replace("T", " ")
        click.echo(f"calls that ended from {span}")
        print_rows([*rows, *_total(rows)], "nothing was used")


def _interval(
    period: tuple[int, int] | None,
    since: int | None,
    from_s: int | None,
    to_s: int | None,
    now_s: int,
) -> tuple[int | None, int | None]:
    """Raises UsageError for two intervals at once."""
    choices = [period is not None, since is not None, from_s is not None or to_s is not None]
    if sum(choices) > 1:
        raise click.UsageError("--period, --since and --from with --to exclude one another")
    if period is not None:
        return period
    if since is not None:
        return now_s - since, None
    return from_s, to_s


def _csv_lines(api: AdminApi, query: dict[str, Any]) -> Iterator[str]:
    """Every page's rows under the names of the first."""
    page: str | None = None
    while True:
        answer = api.ask("GET", PATH, query | {"format": "csv", "page": page})
        names, *rows = answer.text.splitlines()
        yield from [names, *rows] if page is None else rows
        before, page = page, answer.headers.get(NEXT)
        if page is None:
            return
        if page == before:
            raise Refused(f"{api.url}: a page names itself as the next one")


def _columns(row: dict[str, Any]) -> dict[str, Any]:
    used = row["usage"]
    times = {"from": row["from"]} if "from" in row else {}
    counts = {name: used.get(name, 0) for name in COUNTS[1:]}
    money = {"cost_usd": row["cost_usd"]}
    group: dict[str, Any] = row["group"]
    return times | group | {"requests": row["requests"]} | counts | money


def _by_slug(api: AdminApi, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Organizations as people know them."""
    if not rows or "org" not in rows[0]:
        return rows
    slugs = {row["id"]: row["slug"] for row in api.rows("/organizations")}
    return [row | {"org": slugs.get(row["org"], row["org"])} for row in rows]


def _total(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A last row for more than one."""
    if len(rows) < 2:
        return []
    first = next(iter(rows[0]))
    sums = {name: sum(row[name] for row in rows) for name in COUNTS}
    cost = sum(Decimal(row["cost_usd"]) for row in rows)
    return [dict.fromkeys(rows[0], "") | {first: "total"} | sums | {"cost_usd": f"{cost:f}"}]
