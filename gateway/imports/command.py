"""`sluice import`: what another gateway is configured with, as files of Sluice."""

from __future__ import annotations

from pathlib import Path

import click

from gateway.commands.terminal.options import example
from gateway.commands.terminal.output import counted, print_json

MODELS_FILE, POLICY_FILE = "models.toml", "policy.yaml"


@click.group("import")
def import_() -> None:
    """Take over the configuration of another gateway."""


@import_.command(epilog=example("sluice import litellm config.yaml --out imported"))
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("imported"),
    show_default=True,
    help="Folder to write models.toml and policy.yaml into.",
)
@click.option("--force", is_flag=True, help="Write over files that are there.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def litellm(file: Path, out: Path, force: bool, as_json: bool) -> None:
    """Write the models and routes of a LiteLLM config.yaml, and say what has no counterpart.

    No key is copied. Look through both files, then run `sluice models apply` and `sluice policy
    activate`.
    """
    from gateway.imports.litellm import UnreadableConfig, import_litellm

    try:
        imported = import_litellm(file.read_text("utf-8"))
    except (UnreadableConfig, UnicodeDecodeError) as wrong:
        raise click.ClickException(f"{file}: not a configuration of LiteLLM: {wrong}") from wrong
    if not imported.pools:
        for note in imported.notes:
            click.echo(f"  {note.place}: {note.words}", err=True)
        raise click.ClickException(f"{file}: nothing in it can be taken over")
    files = {out / MODELS_FILE: imported.models_toml, out / POLICY_FILE: imported.policy_yaml}
    if not force and (there := next((path for path in files if path.exists()), None)):
        raise click.ClickException(f"{there} is there already: --force writes over it")
    out.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, "utf-8")
    if as_json:
        notes = [note._asdict() for note in imported.notes]
        print_json(
            {
                "files": [str(path) for path in files],
                "models": imported.models,
                "pools": imported.pools,
                "notes": notes,
            }
        )
        return
    what = f"{counted(imported.models, 'model')} and {counted(imported.pools, 'pool')}"
    click.echo(f"wrote {what} to {out / MODELS_FILE}, routes to {out / POLICY_FILE}")
    for note in imported.notes:
        click.echo(f"  {note.place}: {note.words}")
