"""`sluice ledger`: the ledger process, its laws, and the records that it could not book."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from redis.asyncio import Redis
from redis.exceptions import RedisError

from billing.ledger.report import Report, silent
from billing.usage.call_laws import Sample
from billing.verify import SAMPLE_RECORDS, progress_on, verify
from billing.writer import dead_letters as letters
from billing.writer.dead_letters import AlreadyResolved, Letter, StillDead, UnknownLetter, readable
from gateway.admin.ledger.schemas import LedgerReport
from gateway.commands.data_folder import Ledger, become, pass_on_folder, with_ledger
from gateway.commands.terminal.options import Command, data_folder, example

NUMBER = click.IntRange(1, 2**63 - 1)
MICROSECONDS = 1_000_000
LETTER_FIELDS = 100
DETAIL_CHARS = 100


@click.group(invoke_without_command=True)
@data_folder
@click.pass_context
def ledger(context: click.Context, data: Path | None, config: Path | None) -> None:
    """Run the ledger: writer, reaper and primer; or check it with `ledger verify`."""
    if context.invoked_subcommand is None:
        become(data, config, "billing")
    pass_on_folder(data, config)


@ledger.command("verify", epilog=example("sluice ledger verify --json"))
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option(
    "--sample",
    type=click.IntRange(0),
    default=SAMPLE_RECORDS,
    show_default=True,
    help="About how many records to rate again; 0 is none.",
)
@click.option("--seed", type=click.IntRange(0), help="Which records those are (default: by time).")
@with_ledger
def verify_(ledger: Ledger, as_json: bool, sample: int, seed: int | None) -> int:
    """Check every law of money; exit status 1 if one is broken."""
    now_us = _now_us()
    progress = progress_on(sys.stderr, time.monotonic) if sys.stderr.isatty() else silent  # noqa: TID251
    try:
        report = verify(
            ledger.store,
            now_us=now_us,
            spool_root=ledger.settings.spool,
            redis_url=ledger.settings.redis,
            hold_age_max_s=ledger.settings.ledger.hold_age_max_s,
            sample=Sample(sample, now_us if seed is None else seed),
            progress=progress,
        )
    finally:
        progress("", 0, 0)
    click.echo(_as_json(report) if as_json else report.as_text())
    return 0 if report.ok else 1


def _as_json(report: Report) -> str:
    return LedgerReport.model_validate(report).model_dump_json(indent=2)


@ledger.group("dead-letters", invoke_without_command=True)
@data_folder
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
        pass_on_folder(data, config)
    elif show is not None:
        with_ledger(_show)(data, config, number=show)
    else:
        with_ledger(_list)(
            data, config, resolved_too=resolved_too, as_json=as_json, after=after or 0
        )


def _by(command: Command) -> Command:
    return click.option("--by", help="Who does it (default: the login name).")(command)


@dead_letters.command(epilog=example("sluice ledger dead-letters retry --all"))
@click.argument("numbers", type=NUMBER, nargs=-1, metavar="[N]...")
@click.option("--all", "every", is_flag=True, help="Every one that trying again may help.")
@_by
@with_ledger
def retry(ledger: Ledger, numbers: tuple[int, ...], every: bool, by: str | None) -> int:
    """Book letters as the writer would have; exit status 1 if one still cannot be."""
    if bool(numbers) == every:
        raise click.UsageError("name letters, or say --all")
    if every:
        numbers = tuple(
            each.number for each in letters.listed(ledger.store) if not each.is_of_people
        )
    if not numbers:
        click.echo("there is nothing to try again")
        return 0
    who = by or _login()
    return _resolve(
        ledger,
        numbers,
        lambda number: letters.retry(ledger.store, number, by=who, now_us=_now_us()),
    )


@dead_letters.command(epilog=example('sluice ledger dead-letters resolve 7 --note "a test call"'))
@click.argument("number", type=NUMBER, metavar="N")
@click.option("--note", required=True, help="Why, in words; it is kept with the letter.")
@_by
@with_ledger
def resolve(ledger: Ledger, number: int, note: str, by: str | None) -> int:
    """Write down that a person has judged a letter: it breaks no law any more, and stays."""
    if not note.strip():
        raise click.UsageError("--note says why, in words")
    who = by or _login()
    return _resolve(
        ledger,
        [number],
        lambda number: letters.judge(ledger.store, number, by=who, note=note, now_us=_now_us()),
    )


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        return f"uid {os.getuid()}"


def _now_us() -> int:
    return int(time.time() * MICROSECONDS)  # noqa: TID251 - a command's own clock


def _list(ledger: Ledger, resolved_too: bool, as_json: bool, after: int) -> int:
    store = ledger.store
    rows = letters.listed(store, resolved_too=resolved_too, after=after, limit=LETTER_FIELDS + 1)
    page, more = rows[:LETTER_FIELDS], len(rows) > LETTER_FIELDS
    is_open, booked, judged = letters.counts(store)
    if as_json:
        counts = {"open": is_open, "booked": booked, "judged": judged}
        answer = {"counts": counts, "dead_letters": [_fields(letter) for letter in page]}
        click.echo(json.dumps(answer | {"has_more": more}, indent=2))
        return 0
    for letter in page:
        click.echo(_line(letter))
    if more:
        click.echo(f"there are more: --after {page[-1].number}")
    click.echo(f"{is_open} open, {booked} booked later, {judged} judged by a person")
    return 0


def _show(ledger: Ledger, number: int) -> int:
    try:
        letter = letters.one(ledger.store, number)
    except UnknownLetter:
        return _unknown(number)
    click.echo(json.dumps(_fields(letter) | {"payload": readable(letter.payload)}, indent=2))
    return 0


def _resolve(ledger: Ledger, numbers: Sequence[int], resolve: Callable[[int], Letter]) -> int:
    """Try letters again, or judge one; what could not be done is said of each."""
    letters_resolved: list[Letter] = []
    for number in numbers:
        try:
            letters_resolved.append(resolve(number))
        except UnknownLetter:
            _unknown(number)
        except AlreadyResolved as before:
            click.echo(f"{number}: nothing was changed, {before}", err=True)
        except StillDead as dead:
            click.echo(f"{number}: cannot be booked: {dead}", err=True)
        else:
            click.echo(f"{number}: {_outcome(letters_resolved[-1])}")
    asyncio.run(_recount(ledger.settings.redis, letters_resolved))
    return 0 if len(letters_resolved) == len(numbers) else 1


async def _recount(redis_url: str, letters_resolved: Iterable[Letter]) -> None:
    redis = Redis.from_url(redis_url)
    try:
        for letter in letters_resolved:
            await letters.ask_to_recount(redis, letter)
    except (RedisError, OSError) as error:
        why = f"Redis does not answer, and counts what it counted before: {error}"
        click.echo(why, err=True)
    finally:
        await redis.aclose()


def _unknown(number: int) -> int:
    click.echo(f"there is no dead letter {number}", err=True)
    return 1


def _line(letter: Letter) -> str:
    what = _outcome(letter) if letter.resolution else letter.detail
    words = what if len(what) <= DETAIL_CHARS else f"{what[:DETAIL_CHARS]}..."
    rid = letter.rid or "-"
    return f"{letter.number:>6}  {_utc(letter.created_us)}  {letter.reason:<15}  {rid}  {words}"


def _outcome(letter: Letter) -> str:
    assert letter.resolution is not None
    resolution = letter.resolution
    words = f": {resolution.note}" if resolution.note else ""
    return f"{resolution.outcome.value} by {resolution.by} at {_utc(resolution.at_us)}{words}"


def _fields(letter: Letter) -> dict[str, Any]:
    resolution = letter.resolution
    return {
        "number": letter.number,
        "when": _utc(letter.created_us),
        "reason": letter.reason,
        "request_id": letter.rid,
        "detail": letter.detail,
        "kind": letter.kind,
        "shard": letter.shard,
        "entry": letter.entry,
        "resolution": resolution
        and {
            "outcome": resolution.outcome.value,
            "by": resolution.by,
            "note": resolution.note,
            "when": _utc(resolution.at_us),
        },
    }


def _utc(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // MICROSECONDS, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
