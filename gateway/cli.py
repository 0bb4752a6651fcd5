"""The `sluice` command: starts the parts as processes and imports none of them.

A part becomes the process that was called, so that signals and exit codes are its own. Options
become `SLUICE_...` variables, which win over the settings file everywhere.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from gateway.settings import PREFIX, Settings, SettingsError, find_config, load_settings
from gateway.supervisor.credentials import kept_credentials
from gateway.supervisor.errors import CannotStart
from gateway.supervisor.redis_server import redis_url

Command = TypeVar("Command", bound=Callable[..., Any])


NUMBER = click.IntRange(1, 2**63 - 1)
DEAD_LETTERS = "billing.dead_letters_run"


def _by(command: Command) -> Command:
    """Who does it, where that is written down."""
    return click.option("--by", help="Who does it (default: the login name).")(command)


def _where(command: Command) -> Command:
    """The options every command takes."""
    data = click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder with ledger, keys and logs (default ./.sluice).",
    )
    config = click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Settings file (default ./sluice.toml, else the one that comes with Sluice).",
    )
    return data(config(command))


@click.group()
@click.version_option(package_name="sluice")
def main() -> None:
    """Sluice: a serverless LLM inference gateway."""


@main.command()
@_where
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the gateway (default 8080).")
@click.option("--engine", help="What generates: continuous or vllm.")
def up(data: Path | None, config: Path | None, port: int | None, engine: str | None) -> None:
    """Start everything on this machine, in the foreground."""
    _set("GATEWAY__PORT", port)
    _set("ENGINE", engine)
    _tell(data, config)
    from gateway.supervisor.up import up as run_up

    sys.exit(run_up())


@main.command()
@_where
@click.option("--port", type=click.IntRange(1, 65535))
def gateway(data: Path | None, config: Path | None, port: int | None) -> None:
    """Run one gateway."""
    _set("GATEWAY__PORT", port)
    _become(data, config, "gateway")


@main.command()
@_where
def controller(data: Path | None, config: Path | None) -> None:
    """Run the controller: it decides replica counts and publishes the fleet."""
    _become(data, config, "workers.controller")


@main.command()
@_where
def workers(data: Path | None, config: Path | None) -> None:
    """Run the Ray cluster of this machine."""
    _become(data, config, "workers.launch")


@main.command()
@_where
def migrate(data: Path | None, config: Path | None) -> None:
    """Bring the database to the newest revision."""
    settings = _tell(data, config)
    from sqlalchemy.exc import SQLAlchemyError

    from migrations.run import migrate as bring_up_to_date

    try:
        settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        bring_up_to_date(settings.sql)
    except OSError as refused:
        raise click.ClickException(f"{settings.data}: {refused.strerror}") from refused
    except SQLAlchemyError as failed:
        why = str(failed).splitlines()[0]
        raise click.ClickException(f"the database cannot be migrated: {why}") from failed


@main.group(invoke_without_command=True)
@_where
@click.pass_context
def ledger(context: click.Context, data: Path | None, config: Path | None) -> None:
    """Run the ledger: writer, reaper and primer; or check it with `ledger verify`."""
    if context.invoked_subcommand is None:
        _become(data, config, "billing")
    _set("DATA", data and data.absolute())
    _set("CONFIG", config and config.absolute())


@ledger.command()
@_where
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--sample", type=click.IntRange(0), help="About how many records to rate again.")
@click.option("--seed", type=click.IntRange(0), help="Which records those are (default: by time).")
def verify(
    data: Path | None, config: Path | None, as_json: bool, sample: int | None, seed: int | None
) -> None:
    """Check every law of money; exit status 1 if one is broken."""
    given = (("--sample", sample), ("--seed", seed))
    options = [f"{name}={value}" for name, value in given if value is not None]
    _become(data, config, "billing.verify", *options, *["--json"] * as_json)


@ledger.group("dead-letters", invoke_without_command=True)
@_where
@click.option("--show", type=NUMBER, metavar="N", help="All of one letter, with its payload.")
@click.option("--all", "resolved_too", is_flag=True, help="Those that are resolved, too.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
@click.option("--after", type=click.IntRange(0), metavar="N", help="Go on after this letter.")
@click.pass_context
def dead_letters(
    context: click.Context,
    data: Path | None,
    config: Path | None,
    show: int | None,
    resolved_too: bool,
    as_json: bool,
    after: int | None,
) -> None:
    """List records that the ledger could not book, or try one again, or judge it."""
    if context.invoked_subcommand is not None:
        _set("DATA", data and data.absolute())
        _set("CONFIG", config and config.absolute())
    elif show is not None:
        _become(data, config, DEAD_LETTERS, "show", str(show))
    else:
        options = ["--all"] * resolved_too + ["--json"] * as_json
        options += [f"--after={after}"] if after is not None else []
        _become(data, config, DEAD_LETTERS, "list", *options)


@dead_letters.command()
@_where
@click.argument("numbers", type=NUMBER, nargs=-1, metavar="[N]...")
@click.option("--all", "every", is_flag=True, help="Every one that trying again may help.")
@_by
def retry(
    data: Path | None, config: Path | None, numbers: tuple[int, ...], every: bool, by: str | None
) -> None:
    """Book letters as the writer would have; exit status 1 if one still cannot be."""
    if bool(numbers) == every:
        raise click.UsageError("name letters, or say --all")
    options = ["--all"] * every + ([f"--by={by}"] if by else [])
    _become(data, config, DEAD_LETTERS, "retry", *options, *map(str, numbers))


@dead_letters.command()
@_where
@click.argument("number", type=NUMBER, metavar="N")
@click.option("--note", required=True, help="Why, in words; it is kept with the letter.")
@_by
def resolve(data: Path | None, config: Path | None, number: int, note: str, by: str | None) -> None:
    """Write down that a person has judged a letter: it breaks no law any more, and stays."""
    if not note.strip():
        raise click.UsageError("--note says why, in words")
    options = [f"--note={note}"] + ([f"--by={by}"] if by else [])
    _become(data, config, DEAD_LETTERS, "resolve", *options, str(number))


@main.group()
def invoice() -> None:
    """Invoices, made from the ledger."""


@invoice.command()
@_where
@click.option("--period", required=True, help="The month in UTC, as YYYY-MM.")
def run(data: Path | None, config: Path | None, period: str) -> None:
    """Write the invoices of a month: drafts while it is open, final ones afterwards."""
    _become(data, config, "billing.invoicing_run", "--period", period)


@main.group()
def models() -> None:
    """Models with their pools and prices, by declaration."""


@models.command()
@_where
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check everything and print what would change.")
@click.option("--verify", is_flag=True, help="Hash cached weights again instead of their sizes.")
def apply(data: Path | None, config: Path | None, file: Path, dry_run: bool, verify: bool) -> None:
    """Add or change what a models.toml declares, without a restart (docs/models.md)."""
    options = ["--dry-run"] * dry_run + ["--verify"] * verify
    _become(data, config, "gateway.models_apply", str(file.absolute()), *options)


def _become(data: Path | None, config: Path | None, module: str, *arguments: str) -> NoReturn:
    """Replace this process: signals and exit status are the part's own."""
    _join(_tell(data, config))
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


def _join(settings: Settings) -> None:
    """Become one of the parts of this data folder: its Redis, database and secrets.

    Whatever the environment says already, as it does below `sluice up`, is left alone.
    """
    data = settings.data.absolute()
    known = {
        "SLUICE_REDIS_URL": settings.redis_url or redis_url(data),
        "SLUICE_SQL_URL": settings.sql,
    }
    try:
        if (kept := kept_credentials(data)) is not None:
            known |= kept.environment
    except CannotStart as damaged:
        raise click.ClickException(str(damaged)) from damaged
    for name, value in known.items():
        os.environ.setdefault(name, value)


def _tell(data: Path | None, config: Path | None) -> Settings:
    """Pass the options on as variables, and end with one line if the settings do not read."""
    _set("DATA", data and data.absolute())
    _set("CONFIG", find_config(config))
    try:
        return load_settings()
    except SettingsError as wrong:
        raise click.ClickException(f"settings: {wrong}") from wrong


def _set(name: str, value: object) -> None:
    if value is not None:
        os.environ[PREFIX + name] = str(value)


if __name__ == "__main__":
    main()
