"""What many commands take: which Sluice they are about, and how they answer."""

import os
from collections.abc import Callable
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


def data_folder(command: Command) -> Command:
    """The options of every command that is about a Sluice of this machine."""
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


def admin_api(command: Callable[..., Any]) -> Callable[..., Any]:
    """Call the command with an AdminApi, that of the data folder or of `--url`."""

    @wraps(command)
    def run(
        data: Path | None, config: Path | None, url: str | None, insecure: bool, **options: Any
    ) -> Any:
        from gateway.commands.terminal.address import remote, running

        if url is not None:
            api = remote(url, os.environ, insecure=insecure)
        else:
            api = running(data, config)
        return command(api, **options)

    url = click.option(
        "--url", help="A gateway elsewhere; its admin key is read from SLUICE_ADMIN_KEY."
    )
    insecure = click.option(
        "--insecure", is_flag=True, help="Send the key to --url over plain http."
    )
    return data_folder(url(insecure(run)))


as_json = click.option("--json", "as_json", is_flag=True, help="Print the API's own answer.")
quiet = click.option("--quiet", "-q", is_flag=True, help="Print the new id alone.")


def example(*lines: str) -> str:
    """An epilog of commands that can be pasted."""
    return "\b\n" + "\n".join(["Example:", *(f"  {line}" for line in lines)])


class Nothing(Enum):
    """`none` on the command line: take away what is set."""

    NONE = "none"


class OrNone(click.ParamType[Any]):
    """A value, or the word `none`."""

    def __init__(self, kind: click.ParamType[Any]) -> None:
        self._kind = kind
        self.name = f"{kind.name}|none"

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return f"{self._kind.name.upper()}|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in (Nothing.NONE, Nothing.NONE.value):
            return Nothing.NONE
        return self._kind.convert(value, param, ctx)


def changes(options: dict[str, Any]) -> dict[str, Any]:
    """The body of a change: options that were not given are left out, `none` is null."""
    return {
        name: None if value is Nothing.NONE else value
        for name, value in options.items()
        if value is not None and value != ()
    }
