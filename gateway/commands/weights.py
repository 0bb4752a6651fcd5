"""`sluice weights`: the store of checkpoints of this data folder, which nodes fetch from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import click

from gateway.catalog.weights.cache import CacheError, WeightCache
from gateway.catalog.weights.files import UnfitWeights, check_weights
from gateway.commands.data_folder import join
from gateway.commands.terminal.options import data_folder, example
from gateway.config_file import SettingsError
from gateway.settings import load_settings


@click.group()
def weights() -> None:
    """The store of checkpoints that nodes fetch from."""


@weights.command(epilog=example("sluice weights add checkpoints/tale"))
@data_folder
@click.argument("folder", type=click.Path(file_okay=False, exists=True, path_type=Path))
def add(data: Path | None, config: Path | None, folder: Path) -> None:
    """Copy a checkpoint into the store, and print its id."""
    cache = _cache(data, config)
    try:
        source = folder.resolve()
        check_weights(source)
        manifest = cache.read(source)
        cache.take(source, manifest)
    except (UnfitWeights, CacheError) as wrong:
        _end(f"{folder}: {wrong}")
    click.echo(manifest.checksum)


@weights.command("list", epilog=example("sluice weights list"))
@data_folder
def list_weights(data: Path | None, config: Path | None) -> None:
    """The ids of all checkpoints in the store, with their sizes and folders."""
    cache = _cache(data, config)
    for id in cache.ids():
        manifest = cache.manifest(id)
        size = "damaged" if manifest is None else f"{manifest.bytes / 1e9:.3f} GB"
        click.echo(f"{id}  {size}  {cache.folder(id)}")


@weights.command(epilog=example("sluice weights verify"))
@data_folder
@click.argument("ids", nargs=-1)
def verify(data: Path | None, config: Path | None, ids: tuple[str, ...]) -> None:
    """Hash checkpoints again: those of these ids, or all. Status 1 where one is damaged."""
    cache = _cache(data, config)
    stored = cache.ids()
    if unknown := [id for id in ids if id not in stored]:
        _end(f"{unknown[0]} is not in the store")
    damaged = [id for id in ids or stored if not cache.holds(id, verify=True)]
    for id in ids or stored:
        click.echo(f"{id}  {'damaged' if id in damaged else 'whole'}")
    sys.exit(1 if damaged else 0)


def _cache(data: Path | None, config: Path | None) -> WeightCache:
    join(data, config)
    try:
        return WeightCache(load_settings().weights, tell=lambda words: click.echo(words, err=True))
    except SettingsError as wrong:
        _end(str(wrong))


def _end(words: str) -> NoReturn:
    click.echo(words, err=True)
    sys.exit(1)
