"""`sluice replay`: makes the decisions of the last hours again, and compares."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from billing.decisions.store import recorded_since
from gateway.commands.data_folder import Ledger, with_ledger
from gateway.commands.terminal.instants import SPAN
from gateway.commands.terminal.options import as_json, example
from gateway.commands.terminal.output import NOTHING, counted, print_json
from gateway.decisions.replay import Difference, PolicyOf, replayed
from gateway.decisions.versions import PolicyVersions
from gateway.policies.document import compiled
from gateway.policies.source import InvalidDocument
from gateway.policies.tables import POLICIES
from gateway.versions.store import VersionStore

SHOWN: Final = 20
NOTHING_RECORDED: Final = 2


class UnreadablePolicy(click.ClickException):
    exit_code = 3


@click.command(
    epilog=example("sluice replay --since 24h", "sluice replay --since 1h --policy draft.yaml")
)
@click.option("--since", type=SPAN, default="24h", help="Until now: 90m, 24h (the default), 7d.")
@click.option(
    "--policy",
    "document",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Decide by this document, and compare where calls go.",
)
@as_json
@with_ledger
def replay(ledger: Ledger, since: float, document: Path | None, as_json: bool) -> int:
    """Make each recorded decision again from what it was made from. Without --policy the version
    that decided decides again, and every figure of every candidate must be the same. The exit
    status is 1 on a difference, 2 where nothing was recorded, and 3 where the document is wrong."""
    since_us = int((time.time() - since) * 1e6)  # noqa: TID251 - a command's own clock
    policy_of = (
        PolicyVersions(VersionStore(ledger.store, POLICIES)).of
        if document is None
        else _of(document)
    )
    records = recorded_since(ledger.store, since_us)
    decisions, different = 0, list[list[Difference]]()
    for differences in replayed(records, policy_of, same_policy=document is None):
        decisions += 1
        if differences:
            different.append(differences)
    if as_json:
        print_json(_report(decisions, different))
    else:
        _print(decisions, different)
    if not decisions:
        return NOTHING_RECORDED
    return 1 if different else 0


def _of(path: Path) -> PolicyOf:
    """The one policy of a file, whatever version decided. Raises UnreadablePolicy."""
    try:
        policy = compiled(path.read_text("utf-8"), revision=0)
    except InvalidDocument as invalid:
        places = [f"{path}:{each.line}:{each.column}: {each.message}" for each in invalid.mistakes]
        raise UnreadablePolicy("\n".join(places)) from invalid
    except (OSError, UnicodeDecodeError) as unreadable:
        raise UnreadablePolicy(f"{path}: {unreadable}") from unreadable
    return lambda _version: policy


def _report(decisions: int, different: Sequence[Sequence[Difference]]) -> dict[str, Any]:
    return {
        "decisions": decisions,
        "equal": decisions - len(different),
        "different": [
            {"id": each.id, "field": each.field, "was": each.was, "is": each.now}
            for differences in different
            for each in differences
        ],
    }


def _print(decisions: int, different: Sequence[Sequence[Difference]]) -> None:
    if not decisions:
        click.echo("nothing was recorded in this time")
        return
    click.echo(f"{counted(decisions, 'decision')}, {decisions - len(different):,} equal")
    for differences in different[:SHOWN]:
        words = [f"{d.field} was {d.was or NOTHING}, is {d.now or NOTHING}" for d in differences]
        click.echo(f"  {differences[0].id}: {'; '.join(words)}")
    if len(different) > SHOWN:
        click.echo(f"  and {len(different) - SHOWN:,} more: --json has all of them")
