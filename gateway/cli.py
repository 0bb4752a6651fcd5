"""The `sluice` command: starts the parts as processes and imports none of them.

A part becomes the process that was called, so that signals and exit codes are its own. Options
become `SLUICE_...` variables, which win over the settings file everywhere.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gateway.commands.data_folder import become, join, pass_on, settings_of
from gateway.commands.terminal.lazy import LazyGroup
from gateway.commands.terminal.options import data_folder, example

OVER_ADMIN_API = (
    "budget",
    "credits",
    "key",
    "org",
    "pools",
    "prices",
    "project",
    "provider",
    "usage",
)
IN_MODULES = (
    *OVER_ADMIN_API,
    *("economics", "invoice", "ledger", "models", "policy", "quality", "replay"),
    "weights",
)
MODULES_ELSEWHERE = {
    "import": "gateway.imports.command",
    "provider": "gateway.providers.command",
    "books": "gateway.admin.books.command",
}


@click.group(
    cls=LazyGroup,
    lazily={name: f"gateway.commands.{name}" for name in IN_MODULES} | MODULES_ELSEWHERE,
)
@click.version_option(package_name="sluice")
def main() -> None:
    """Sluice: a serverless LLM inference gateway."""


@main.command()
@data_folder
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the gateway (default 8080).")
@click.option("--engine", help="What generates: continuous or vllm.")
def up(data: Path | None, config: Path | None, port: int | None, engine: str | None) -> None:
    """Start everything on this machine, in the foreground."""
    pass_on("GATEWAY__PORT", port)
    pass_on("ENGINE", engine)
    settings_of(data, config)
    from gateway.supervisor.up import up as run_up

    sys.exit(run_up())


@main.command()
@data_folder
@click.option("--port", type=click.IntRange(1, 65535))
def gateway(data: Path | None, config: Path | None, port: int | None) -> None:
    """Run one gateway."""
    pass_on("GATEWAY__PORT", port)
    become(data, config, "gateway")


@main.command()
@data_folder
def controller(data: Path | None, config: Path | None) -> None:
    """Run the controller: it decides replica counts and publishes the fleet."""
    become(data, config, "workers.controller")


@main.command(epilog=example("sluice workers --ray-address http://10.0.0.4:8265"))
@data_folder
@click.option("--ray-address", metavar="URL", help="Dashboard of a Ray cluster to join.")
@click.option("--wait", type=click.FloatRange(0), help="Seconds that it may take to answer.")
def workers(
    data: Path | None, config: Path | None, ray_address: str | None, wait: float | None
) -> None:
    """Run the Ray cluster of this machine, or join one that somebody else runs.

    A cluster to join is checked first, and RAY_AUTH_TOKEN must be its token. Then the pools run
    there, and a controller runs here. Whoever leaves takes away the own applications alone.
    """
    pass_on("RAY__ADDRESS", ray_address)
    pass_on("RAY__JOIN_WAIT_S", wait)
    become(data, config, "workers.ray.launch", "--alone")


@main.command(epilog=example("sluice providers"))
@data_folder
def providers(data: Path | None, config: Path | None) -> None:
    """Run the adapters to providers that have an API of their own.

    Gateways of this machine reach them; provider keys are read from SLUICE_PROVIDER_KEY_... here.
    Their environment is made first where it is missing.
    """
    join(data, config)
    settings = settings_of(data, config)
    from gateway.providers.launch import NoEnvironment, launch

    try:
        launch(settings, os.environ)
    except NoEnvironment as missing:
        raise click.ClickException(str(missing)) from missing


@main.command()
@data_folder
def migrate(data: Path | None, config: Path | None) -> None:
    """Bring the database to the newest revision."""
    settings = settings_of(data, config)
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


@main.command(epilog=example("source <(sluice completion bash)"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that completes commands and options of `sluice` in a shell."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    assert complete is not None
    click.echo(complete(main, {}, "sluice", "_SLUICE_COMPLETE").source())


if __name__ == "__main__":
    main()
