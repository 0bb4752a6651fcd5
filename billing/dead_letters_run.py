"""`python -m billing.dead_letters_run`, which `sluice ledger dead-letters` becomes.

Lists letters, shows one, tries some again, or writes down what a person says of one.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing import dead_letters
from billing.dead_letters import AlreadyResolved, Letter, StillDead, UnknownLetter, readable
from billing.settings import BillingSettings
from billing.store.engine import Store, open_store

MICROSECONDS = 1_000_000
LISTED = 100
DETAIL_CHARS = 100


def main() -> int:
    """0 if all that was asked for is done, 1 if a letter could not be, 2 without a ledger."""
    arguments = _arguments()
    settings = BillingSettings()
    store = open_store(settings.sql)
    try:
        if arguments.what == "list":
            return _list(store, arguments)
        if arguments.what == "show":
            return _show(store, arguments.number)
        return _resolve(store, settings.redis, arguments)
    except SQLAlchemyError as error:
        why = str(error).splitlines()[0]
        print(f"there is no ledger to read at {store.engine.url}: {why}", file=sys.stderr)
        return 2
    finally:
        store.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m billing.dead_letters_run")
    what = parser.add_subparsers(dest="what", required=True)
    listing = what.add_parser("list")
    listing.add_argument("--all", action="store_true", help="those that are resolved, too")
    listing.add_argument("--json", action="store_true", help="as JSON")
    listing.add_argument("--after", type=int, default=0, help="go on after this letter")
    listing.add_argument("--limit", type=int, default=LISTED)
    what.add_parser("show").add_argument("number", type=int)
    trying = what.add_parser("retry")
    trying.add_argument("numbers", type=int, nargs="*")
    trying.add_argument("--all", action="store_true", help="every one that trying may help")
    judging = what.add_parser("resolve")
    judging.add_argument("number", type=int)
    judging.add_argument("--note", required=True)
    for acting in (trying, judging):
        acting.add_argument("--by", default=_login())
    return parser.parse_args()


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no name for its user
        return f"uid {os.getuid()}"


def _list(store: Store, asked: argparse.Namespace) -> int:
    found = dead_letters.listed(
        store, resolved_too=asked.all, after=asked.after, limit=asked.limit + 1
    )
    shown, more = found[: asked.limit], len(found) > asked.limit
    is_open, booked, judged = dead_letters.counts(store)
    if asked.json:
        counted = {"open": is_open, "booked": booked, "judged": judged}
        told = {"counts": counted, "dead_letters": [_told(letter) for letter in shown]}
        print(json.dumps(told | {"has_more": more}, indent=2))
        return 0
    for letter in shown:
        print(_line(letter))
    if more:
        print(f"there are more: --after {shown[-1].number}")
    print(f"{is_open} open, {booked} booked later, {judged} judged by a person")
    return 0


def _show(store: Store, number: int) -> int:
    try:
        letter = dead_letters.one(store, number)
    except UnknownLetter:
        return _unknown(number)
    print(json.dumps(_told(letter) | {"payload": readable(letter.payload)}, indent=2))
    return 0


def _resolve(store: Store, redis_url: str, asked: argparse.Namespace) -> int:
    """Try letters again, or judge one; what could not be done is said of each."""
    if asked.what == "resolve":
        numbers = [asked.number]
    elif asked.all:
        numbers = [each.number for each in dead_letters.listed(store) if not each.is_of_people]
    else:
        numbers = asked.numbers
    if not numbers:
        print("there is nothing to try again" if asked.all else "name letters, or --all")
        return 0 if asked.all else 2
    done: list[Letter] = []
    for number in numbers:
        try:
            done.append(_resolved(store, number, asked))
        except UnknownLetter:
            _unknown(number)
        except AlreadyResolved as before:
            print(f"{number}: nothing was changed, {before}", file=sys.stderr)
        except StillDead as dead:
            print(f"{number}: cannot be booked: {dead}", file=sys.stderr)
        else:
            print(f"{number}: {_outcome(done[-1])}")
    asyncio.run(_recount(redis_url, done))
    return 0 if len(done) == len(numbers) else 1


def _resolved(store: Store, number: int, asked: argparse.Namespace) -> Letter:
    now_us = int(time.time() * MICROSECONDS)  # noqa: TID251 - a command's own clock
    if asked.what == "retry":
        return dead_letters.retry(store, number, by=asked.by, now_us=now_us)
    return dead_letters.judge(store, number, by=asked.by, note=asked.note, now_us=now_us)


async def _recount(redis_url: str, done: Sequence[Letter]) -> None:
    redis = Redis.from_url(redis_url)
    try:
        for letter in done:
            await dead_letters.ask_to_recount(redis, letter)
    except (RedisError, OSError) as error:
        print(f"Redis does not answer, and counts what it counted before: {error}", file=sys.stderr)
    finally:
        await redis.aclose()


def _unknown(number: int) -> int:
    print(f"there is no dead letter {number}", file=sys.stderr)
    return 1


def _line(letter: Letter) -> str:
    what = _outcome(letter) if letter.resolution else letter.detail
    words = what if len(what) <= DETAIL_CHARS else f"{what[:DETAIL_CHARS]}..."
    rid = letter.rid or "-"
    return f"{letter.number:>6}  {_utc(letter.created_us)}  {letter.reason:<15}  {rid}  {words}"


def _outcome(letter: Letter) -> str:
    assert letter.resolution is not None
    done = letter.resolution
    words = f": {done.note}" if done.note else ""
    return f"{done.outcome.value} by {done.by} at {_utc(done.at_us)}{words}"


def _told(letter: Letter) -> dict[str, Any]:
    done = letter.resolution
    return {
        "number": letter.number,
        "when": _utc(letter.created_us),
        "reason": letter.reason,
        "request_id": letter.rid,
        "detail": letter.detail,
        "kind": letter.kind,
        "shard": letter.shard,
        "entry": letter.entry,
        "resolution": done
        and {
            "outcome": done.outcome.value,
            "by": done.by,
            "note": done.note,
            "when": _utc(done.at_us),
        },
    }


def _utc(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // MICROSECONDS, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


if __name__ == "__main__":
    sys.exit(main())
