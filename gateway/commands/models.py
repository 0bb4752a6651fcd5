"""`sluice models`: models with their hardware, variants, pools and prices, by declaration.

Prints what changes, line by line, and ends with status 1 and every mistake if there is one.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
from redis import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import open_store
from billing.prices.versions import PriceError
from gateway.catalog.apply import Application, ModelsApply
from gateway.catalog.catalog import REVISION_KEY
from gateway.catalog.declaration import BadDeclaration, read_file
from gateway.catalog.plan import Sign
from gateway.catalog.weights.cache import CacheError, WeightCache
from gateway.catalog.weights.hub import HubError
from gateway.commands.data_folder import join
from gateway.commands.terminal.options import data_folder, example
from gateway.config_file import SettingsError
from gateway.settings import Settings, load_settings
from gateway.tenants.store import TenantStore
from migrations.run import migrate

LOOK_EVERY_S = 0.05


@click.group()
def models() -> None:
    """Models with their hardware, variants, pools and prices, by declaration."""


@models.command(epilog=example("sluice models apply models.toml --dry-run"))
@data_folder
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check everything and print what would change.")
@click.option("--verify", is_flag=True, help="Hash cached weights again instead of their sizes.")
def apply(data: Path | None, config: Path | None, file: Path, dry_run: bool, verify: bool) -> None:
    """Add or change what a models.toml declares, without a restart (docs/models.md)."""
    join(data, config)
    sys.exit(apply_file(file.absolute(), dry_run=dry_run, verify=verify))


def apply_file(file: Path, *, dry_run: bool = False, verify: bool = False) -> int:
    """The exit status: 1 with every mistake printed, and nothing changed."""
    try:
        settings = load_settings()
        application, revision = _apply(settings, file, dry_run=dry_run, verify=verify)
    except BadDeclaration as bad:
        return _refused(file, [str(mistake) for mistake in bad.mistakes])
    except (SettingsError, CacheError, HubError, PriceError, OSError) as wrong:
        return _refused(file, [str(wrong)])
    except SQLAlchemyError as failed:
        return _refused(file, [f"the database: {str(failed).splitlines()[0]}"])
    _print(application)
    within_s = 2 * settings.gateway.catalog_poll_s
    if application.is_applied and is_late(settings.redis_url, revision, within_s):
        click.echo("note: no gateway serves it yet; each does within seconds of its start")
    return 0


def is_late(redis_url: str | None, revision: int, within_s: float) -> bool:
    """Whether no gateway serves this revision of the catalog after a while, which each does within
    its `catalog_poll_s`. Where Redis is away nothing runs, and nothing is late."""
    if redis_url is None:
        return False
    with Redis.from_url(redis_url, socket_timeout=within_s + LOOK_EVERY_S, retry=None) as redis:
        try:
            for _ in range(1 + round(within_s / LOOK_EVERY_S)):
                if int(redis.get(REVISION_KEY) or -1) >= revision:
                    return False
                time.sleep(LOOK_EVERY_S)
        except (RedisError, OSError):
            return False
    return True


def _apply(
    settings: Settings, file: Path, *, dry_run: bool, verify: bool
) -> tuple[Application, int]:
    """What was done, and the revision of the catalog after it."""
    declaration = read_file(file)
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    migrate(settings.sql)
    ledger = open_store(settings.sql)
    try:
        tenants = TenantStore(ledger)
        use_case = ModelsApply(
            tenants=tenants,
            ledger=ledger,
            cache=WeightCache(settings.weights, tell=click.echo),
            rules=settings.gateway.external_rules,
            nodes=settings.nodes,
            mixes=settings.mixes,
            environment=os.environ,
            clock=time.time,  # noqa: TID251 composition root
            tell=click.echo,
            is_gateway=False,
        )
        application = use_case.apply(
            declaration, relative_to=file.parent, dry_run=dry_run, verify=verify
        )
        return application, tenants.revision()
    finally:
        ledger.close()


def _print(application: Application) -> None:
    for change in application.plan.changes:
        click.echo(str(change))
    for name in application.fetched:
        click.echo(f"  weights of {name}: written to the cache")
    for note in application.notes:
        click.echo(f"note: {note}")
    counts = Counter(change.sign for change in application.plan.changes)
    summary = ", ".join(f"{counts[sign]} {sign.value}" for sign in Sign)
    if application.is_dry_run:
        click.echo(f"dry run, nothing was changed: {summary}")
    else:
        click.echo(f"{'applied' if application.is_applied else 'nothing to do'}: {summary}")
    click.echo("what the file does not name is as it was")


def _refused(file: Path, words: Sequence[str]) -> int:
    click.echo(f"{file}: nothing was changed", err=True)
    for line in words:
        click.echo(f"  {line}", err=True)
    return 1
