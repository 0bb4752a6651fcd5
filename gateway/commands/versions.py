"""Documents in versions from a terminal: the same commands for every kind of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from gateway.commands.terminal.admin_api import AdminApi, Refused
from gateway.commands.terminal.options import admin_api, as_json, changes, example
from gateway.commands.terminal.output import fields, print_json, print_rows

COLUMNS = ("version", "status", "comment", "author", "created_at", "activated_at")
COMMENT = click.option("--comment", required=True, help="Why, for whoever reads the versions.")
VERSION = click.IntRange(1)


def add_version_commands(group: click.Group, path: str) -> None:
    """`list`, `activate` and `rollback`. `path` is that of the admin API."""
    own = f"sluice {group.name}"

    @group.command("list", epilog=example(f"{own} list"))
    @as_json
    @admin_api
    def list_(api: AdminApi, as_json: bool) -> None:
        """List the versions, the newest first."""
        answer = api.whole(path)
        if as_json:
            print_json(answer)
        else:
            print_rows((fields(row, *COLUMNS) for row in answer["data"]), "there is no version")

    @group.command(
        epilog=example(
            f"{own} activate FILE --comment 'Tried for a week'",
            f"{own} activate 3 --comment 'The third one after all'",
        )
    )
    @click.argument("file_or_version")
    @COMMENT
    @click.option("--expects", type=VERSION, help="Only if this version is active now.")
    @as_json
    @admin_api
    def activate(
        api: AdminApi, file_or_version: str, comment: str, expects: int | None, as_json: bool
    ) -> None:
        """Put a document, or a version that is stored, into force.

        A document is checked and stored first. Every gateway follows within 5 seconds. Calls that
        run keep the version that they began with.
        """
        source = file_or_version
        version = source if source.isdigit() else _stored(api, path, source, comment)
        body = {"comment": comment} | changes({"expects": expects})
        _print_version(api.post(f"{path}/{version}/activate", body), as_json)

    @group.command(epilog=example(f"{own} rollback --comment 'Answers got worse'"))
    @COMMENT
    @click.option("--to", type=VERSION, help="This version, which was active before.")
    @as_json
    @admin_api
    def rollback(api: AdminApi, comment: str, to: int | None, as_json: bool) -> None:
        """Put the version into force that was active before this one."""
        body = {"comment": comment} | changes({"to": to})
        _print_version(api.post(f"{path}/rollback", body), as_json)


def print_mistakes(file: str, errors: Iterable[Mapping[str, Any]]) -> None:
    for error in errors:
        click.echo(f"{file}:{error['line']}:{error['column']}: {error['message']}")


def _stored(api: AdminApi, path: str, file: str, comment: str) -> int:
    """The version of a file, stored as a draft. Its mistakes are printed, and end the command."""
    try:
        document = Path(file).read_text(encoding="utf-8")
        return int(api.post(path, {"document": document, "comment": comment})["version"])
    except OSError as missing:
        raise click.ClickException(f"{file}: {missing.strerror}") from missing
    except UnicodeDecodeError as wrong:
        raise click.ClickException(f"{file} is not UTF-8") from wrong
    except Refused as refused:
        if not refused.errors:
            raise
        print_mistakes(file, refused.errors)
        sys.exit(1)


def _print_version(answer: Any, as_json: bool) -> None:
    if as_json:
        print_json(answer)
    else:
        click.echo(f"version {answer['version']} is {answer['status']}")
