"""`sluice pools`: where calls go, and whether a server outside takes them."""

import sys
from typing import Any

import click

from gateway.commands.scopes import part
from gateway.commands.terminal.admin_api import AdminApi
from gateway.commands.terminal.options import admin_api, as_json, example
from gateway.commands.terminal.output import fields, print_json, print_rows

SERVED = ("id", "context_tokens")
COLUMNS = ("name", "model", "capacity_class", "upstream_model", "base_url", "enabled")


@click.group()
def pools() -> None:
    """Pools: replicas of this cluster, and servers outside."""


@pools.command("list", epilog=example("sluice pools list"))
@as_json
@admin_api
def list_(api: AdminApi, as_json: bool) -> None:
    """List the pools."""
    answer = api.whole("/pools")
    if as_json:
        print_json(answer)
    else:
        print_rows((fields(row, *COLUMNS) for row in answer["data"]), "there are no pools")


@pools.command(epilog=example("sluice pools check openai"))
@click.argument("name")
@as_json
@admin_api
def check(api: AdminApi, name: str, as_json: bool) -> None:
    """Make one cheap call of an external pool and say what came; exit status 1 if it cannot serve.
    No tenant pays for it."""
    result = api.post(f"/pools/{part(name)}/check", {})
    if as_json:
        print_json(result)
    else:
        for line in lines(result):
            click.echo(line)
    sys.exit(0 if result["ok"] else 1)


@pools.command(epilog=example("sluice pools models openrouter"))
@click.argument("name")
@as_json
@admin_api
def models(api: AdminApi, name: str, as_json: bool) -> None:
    """List what the server of an external pool serves: names for upstream_model."""
    answer = api.get(f"/pools/{part(name)}/models")
    if as_json:
        print_json(answer)
    else:
        print_rows((fields(row, *SERVED) for row in answer["data"]), "it serves no models")


def lines(result: dict[str, Any]) -> list[str]:
    """What is wanted first: whether it works, and else what to look at."""
    where = f"{result['upstream_model']} at {result['base_url']}"
    took = f"{result['took_ms'] / 1000:.2f} s"
    if result["ok"]:
        return [f"{result['pool']}: works: {where} answered in {took} ({_tokens(result['usage'])})"]
    status = f", status {result['status']}" if result["status"] else ""
    texts = [
        f"{result['pool']}: does not work: {result['outcome'].replace('_', ' ')}{status} ({where})"
    ]
    texts += [f"  {result['hint']}"] if result["hint"] else []
    return texts + ([f"  it said: {result['detail']}"] if result["detail"] else [])


def _tokens(used: dict[str, int] | None) -> str:
    if used is None:
        return "it said no usage, so calls are charged by our own count"
    return f"{used['input'] + used['cached_input']} tokens in, {used['output']} out"
