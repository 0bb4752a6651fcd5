"""`python -m gateway.models_apply FILE`: what `sluice models apply` becomes.

Prints what changes, line by line, and ends with status 1 and every mistake if there is one.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from billing.prices import PriceError
from billing.store.engine import open_store
from gateway.admin.apply import Application, ModelsApply
from gateway.admin.declaration import BadDeclaration, read_file
from gateway.admin.plan import Sign
from gateway.settings import Settings, SettingsError, load_settings
from gateway.store import TenantStore, open_engine
from gateway.weights.cache import CacheError, WeightCache
from gateway.weights.hub import HubError
from migrations.run import migrate


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="sluice models apply")
    parser.add_argument("file", type=Path)
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--verify", action="store_true")
    wanted = parser.parse_args(arguments)
    try:
        done = _apply(load_settings(), wanted.file, dry_run=wanted.dry_run, verify=wanted.verify)
    except BadDeclaration as bad:
        return _refused(wanted.file, [str(mistake) for mistake in bad.mistakes])
    except (SettingsError, CacheError, HubError, PriceError, OSError) as wrong:
        return _refused(wanted.file, [str(wrong)])
    except SQLAlchemyError as failed:
        return _refused(wanted.file, [f"the database: {str(failed).splitlines()[0]}"])
    _tell(done, dry_run=wanted.dry_run)
    return 0


def _apply(settings: Settings, file: Path, *, dry_run: bool, verify: bool) -> Application:
    declaration = read_file(file)
    settings.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    migrate(settings.sql)
    engine, ledger = open_engine(settings.sql), open_store(settings.sql)
    try:
        use_case = ModelsApply(
            tenants=TenantStore(engine),
            ledger=ledger,
            cache=WeightCache(settings.weights, tell=_say),
            clock=time.time,  # noqa: TID251 composition root
            tell=_say,
        )
        folder = file.absolute().parent
        return use_case.apply(declaration, relative_to=folder, dry_run=dry_run, verify=verify)
    finally:
        ledger.close()
        engine.dispose()


def _tell(done: Application, *, dry_run: bool) -> None:
    for change in done.plan.changes:
        _say(str(change))
    for name in done.fetched:
        _say(f"  weights of {name}: written to the cache")
    for note in done.notes:
        _say(f"note: {note}")
    counts = Counter(change.sign for change in done.plan.changes)
    told = ", ".join(f"{counts[sign]} {sign.value}" for sign in Sign)
    if dry_run:
        _say(f"dry run, nothing was changed: {told}")
    else:
        _say(f"{'applied' if done.is_applied else 'nothing to do'}: {told}")
    _say("models, pools and prices that the file does not name are as they were")


def _refused(file: Path, words: Sequence[str]) -> int:
    print(f"{file}: nothing was changed", file=sys.stderr)
    for line in words:
        print(f"  {line}", file=sys.stderr)
    return 1


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
