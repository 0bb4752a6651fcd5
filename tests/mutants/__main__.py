"""`make mutants`: break the product on purpose, a line at a time, and see which tests notice.

Works on a copy of the tree. First the mistakes of `known.py`, every one of which must be noticed;
then the `changes` of some 200 lines about money, limits, the journey and scaling, in the order
that `--seed` draws, until `--count` or `--minutes` ends them. A change that nobody notices fails
the run, unless `equal.py` says why it means the same.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.mutants.changes import Change, changes
from tests.mutants.equal import EQUAL
from tests.mutants.known import KNOWN, Known

ROOT = Path(__file__).parents[2]
PARTS = ("billing", "gateway", "routing", "workers", "models", "tests", "migrations", "docs")
FILES = ("pyproject.toml", "sluice.toml", "alembic.ini", "ARCHITECTURE.md", "README.md")
NOTICED_WITHIN_S = 600
NOTHING_RAN = 5
"""Pytest's word for it."""


class Target(NamedTuple):
    """Functions of a module, and the tests that hold them."""

    path: str
    functions: tuple[str, ...]
    tests: tuple[str, ...]


TARGETS = (
    Target(
        "billing/prices/rating.py",
        ("rate", "hold_for", "amount_of", "dearest"),
        ("tests/billing/prices/test_rating.py", "tests/laws/test_price_laws.py"),
    ),
    Target(
        "billing/limits/gcra.py",
        ("cost_us", "take", "correct", "remaining"),
        ("tests/laws/test_gcra.py",),
    ),
    Target(
        "billing/types.py",
        ("within", "bucket_us"),
        ("tests/billing/test_types.py", "tests/laws/test_budget_windows.py"),
    ),
    Target(
        "gateway/call/meter.py",
        ("observe", "overhear", "output_with", "_texts_of", "completes_with", "usage", "_larger"),
        ("tests/gateway/call/test_meter.py",),
    ),
    Target(
        "gateway/call/context.py",
        ("room_for", "_left", "require_countable", "_check_ceiling"),
        ("tests/gateway/call/test_context.py",),
    ),
    Target(
        "workers/autoscaling/scale.py",
        ("_while_warm", "_on_shortage", "_note_excess", "_least", "_needed", "_while_cold"),
        ("tests/workers/autoscaling/test_scale.py", "tests/workers/autoscaling/test_world.py"),
    ),
    Target(
        "workers/autoscaling/drain.py",
        ("begin_drain", "continue_drain", "_is_done", "_after_post"),
        ("tests/workers/autoscaling/test_scale.py", "tests/workers/autoscaling/test_world.py"),
    ),
)


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("--count", type=int, default=300, help="at most so many changes")
    asked.add_argument("--seed", type=int, default=1, help="draws them, and their order")
    asked.add_argument("--minutes", type=float, default=30, help="begin none of them later")
    asked.add_argument("--only", default="", help="changes of files whose path contains this")
    asked.add_argument("--known-only", action="store_true")
    given = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-mutants-") as name:
        copy = Path(name)
        _copy_to(copy)
        _pass_unchanged(copy)
        missed = [] if given.only else _known_missed(copy)
        if not given.known_only:
            missed += _sample(copy, given.count, given.seed, given.minutes, given.only)
    if missed:
        sys.exit("nobody noticed: " + "; ".join(missed))


def _known_missed(copy: Path) -> list[str]:
    missed = [known.what for known in KNOWN if not _known_is_noticed(copy, known)]
    print(f"known: {len(KNOWN) - len(missed)} of {len(KNOWN)} were noticed", flush=True)
    return missed


def _pass_unchanged(copy: Path) -> None:
    """Or a test that always fails would notice everything. What fails once is run again by itself,
    for a busy machine may be to blame."""
    for tests in {each.tests for each in (*KNOWN, *TARGETS)}:
        if _run(copy, tests) and _run(copy, tests, shows=True):
            sys.exit(f"these fail without any mistake: {' '.join(tests)}")


def _sample(copy: Path, count: int, seed: int, minutes: float, only: str) -> list[str]:
    """What nobody noticed and nobody has a reason for."""
    found = [(t, change) for t in TARGETS if only in t.path for change in _changes_of(t)]
    sample = Random(seed).sample(found, min(count, len(found)))
    ends_s = time.monotonic() + minutes * 60
    noticed, equal, alive = 0, 0, []
    for n, (target, change) in enumerate(sample, 1):
        if time.monotonic() > ends_s:
            print(f"{minutes:g} minutes are over: {len(sample) - n + 1} changes were not tried")
            break
        if _is_noticed(copy, target.path, change.source, target.tests):
            noticed, word = noticed + 1, "noticed"
        elif (target.path, change.text, change.what) in EQUAL:
            equal, word = equal + 1, "equal  "
        else:
            word = "ALIVE  "
            alive.append(f"{target.path}:{change.line} {change.what} in {change.text}")
        said = f"{target.path}:{change.line} {change.what}"
        print(f"{n:3}/{len(sample)} {word} {said}", flush=True)
    tried = noticed + equal + len(alive)
    print(f"score: {noticed} of {tried - equal} changes were noticed, seed {seed};", end=" ")
    print(f"{equal} more mean the same, and {len(found) - tried} of {len(found)} were not tried")
    return alive


def _changes_of(target: Target) -> Iterator[Change]:
    return changes((ROOT / target.path).read_text(), target.functions)


def _known_is_noticed(copy: Path, known: Known) -> bool:
    what, path, right, wrong, tests = known
    source = (ROOT / path).read_text()
    assert source.count(right) == 1, f"{what}: its line has changed; say it again in known.py"
    noticed = _is_noticed(copy, path, source.replace(right, wrong), tests)
    print(f"{'noticed' if noticed else 'ALIVE  '} {what}", flush=True)
    return noticed


def _is_noticed(copy: Path, path: str, source: str, tests: tuple[str, ...]) -> bool:
    """Whether one of the tests fails; one that hangs has noticed."""
    there = copy / path
    before = there.read_text()
    there.write_text(source)
    try:
        return _run(copy, tests) != 0
    finally:
        there.write_text(before)


def _run(copy: Path, tests: tuple[str, ...], shows: bool = False) -> int:
    """Exit status: 0 where all passed. Raises SystemExit where none ran."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-m", "not long", *tests]
    try:
        done = subprocess.run(
            [*command, "-p", "no:cacheprovider", "--hypothesis-profile=first-failure"],
            cwd=copy,
            timeout=NOTICED_WITHIN_S,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        print("(out of time)", end=" ")
        return 1
    if shows and done.returncode:
        print(done.stdout[-3000:])
    if done.returncode == NOTHING_RAN:
        sys.exit(f"no test ran: {' '.join(tests)}")
    return done.returncode


def _copy_to(folder: Path) -> None:
    ignored = shutil.ignore_patterns("node_modules", "__pycache__", ".hypothesis")
    for name in PARTS:
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder / name)


if __name__ == "__main__":
    main()
