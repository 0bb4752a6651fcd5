"""The data folder of this machine's Sluice, as commands enter it: its settings, Redis, database and
secrets, passed on as `SLUICE_...` variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from gateway.commands.terminal.options import data_folder

if TYPE_CHECKING:
    from billing.db.engine import Store
    from billing.settings import BillingSettings
    from gateway.settings import Settings


class Ledger(NamedTuple):
    settings: BillingSettings
    store: Store


def pass_on(name: str, value: object) -> None:
    """An option as the variable that wins over the settings file, here and in what follows."""
    if value is not None:
        os.environ[f"SLUICE_{name}"] = str(value)


def pass_on_folder(data: Path | None, config: Path | None) -> None:
    pass_on("DATA", data and data.absolute())
    pass_on("CONFIG", config and config.absolute())


def settings_of(data: Path | None, config: Path | None) -> Settings:
    """The settings; one line ends the command if they do not read."""
    # Not at the top: reading the settings takes longer than most commands do.
    from gateway.config_file import SettingsError, find_config
    from gateway.settings import load_settings

    pass_on_folder(data, find_config(config))
    try:
        return load_settings()
    except SettingsError as wrong:
        raise click.ClickException(f"settings: {wrong}") from wrong


def join(data: Path | None, config: Path | None) -> None:
    """Become one of the parts of this data folder: its Redis, database and secrets.

    Whatever the environment says already, as it does below `sluice up`, is left alone.
    """
    from gateway.supervisor.credentials import read_credentials
    from gateway.supervisor.errors import CannotStart
    from gateway.supervisor.redis_server import redis_url

    settings = settings_of(data, config)
    folder = settings.data.absolute()
    variables = {
        "SLUICE_REDIS_URL": settings.redis_url or redis_url(folder),
        "SLUICE_SQL_URL": settings.sql,
    }
    try:
        if (credentials := read_credentials(folder)) is not None:
            variables |= credentials.environment
    except CannotStart as damaged:
        raise click.ClickException(str(damaged)) from damaged
    for name, value in variables.items():
        os.environ.setdefault(name, value)


def become(data: Path | None, config: Path | None, module: str, *arguments: str) -> NoReturn:
    """Replace this process: signals and exit status are the part's own."""
    join(data, config)
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


def with_ledger(command: Callable[..., int]) -> Callable[..., Any]:
    """Call the command with the ledger of the data folder; what it returns is the exit status, and
    2 where there is no ledger to read."""

    @wraps(command)
    def run(data: Path | None, config: Path | None, **options: Any) -> NoReturn:
        join(data, config)
        from sqlalchemy.exc import SQLAlchemyError

        from billing.db.engine import open_store
        from billing.settings import BillingSettings

        settings = BillingSettings()
        store = open_store(settings.sql)
        try:
            status = command(Ledger(settings, store), **options)
        except SQLAlchemyError as error:
            why = str(error).splitlines()[0]
            click.echo(f"there is no ledger to read at {store.engine.url}: {why}", err=True)
            status = 2
        finally:
            store.close()
        sys.exit(status)

    return data_folder(run)
