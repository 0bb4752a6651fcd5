"""`/admin/v1/ledger/dead-letters`: what the ledger could not book, tried again or judged."""

import logging
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, ConfigDict, StringConstraints
from redis.exceptions import RedisError

from billing import dead_letters
from billing.dead_letters import AlreadyResolved, Letter, StillDead, UnknownLetter, readable
from billing.store.engine import Store
from gateway.api.admin_tenants import attempt
from gateway.api.fields import EXACT_MAX
from gateway.api.needs import parts_of
from gateway.api.shapes import at
from gateway.errors import ApiError

log = logging.getLogger(__name__)

router = APIRouter()

ADMIN = "admin"
LIST_MAX = 1000
LetterId = Annotated[int, Path(ge=1, le=EXACT_MAX)]


class Judgement(BaseModel):
    model_config = ConfigDict(extra="forbid")
    note: Annotated[
        str,
        StringConstraints(
            strip_whitespace=True, min_length=1, max_length=2000, pattern=r"^[^\x00]*$"
        ),
    ]
    """Why, in words; it is kept with the letter."""


@router.get("/ledger/dead-letters")
async def list_dead_letters(
    request: Request,
    resolved: bool = Query(False, description="those that are resolved, too"),
    limit: int = Query(100, ge=1, le=LIST_MAX),
    after: int = Query(0, ge=0, le=EXACT_MAX, description="`last_id` of the page before"),
) -> dict[str, Any]:
    """The oldest first."""
    ledger = parts_of(request).ledger
    found = await attempt(
        lambda: dead_letters.listed(ledger, resolved_too=resolved, after=after, limit=limit + 1)
    )
    page = found[:limit]
    return {
        "object": "list",
        "data": [_shown(letter) for letter in page],
        "has_more": len(found) > limit,
        "last_id": page[-1].number if page else None,
    }


@router.get("/ledger/dead-letters/{letter_id}")
async def show_dead_letter(request: Request, letter_id: LetterId) -> dict[str, Any]:
    """With its payload, in which there are no prompts and no answers."""
    letter = await _asked(request, lambda ledger: dead_letters.one(ledger, letter_id))
    return _shown(letter) | {"payload": readable(letter.payload)}


@router.post("/ledger/dead-letters/{letter_id}/retry")
async def retry_dead_letter(request: Request, letter_id: LetterId) -> dict[str, Any]:
    """Booked as the ledger would have; again changes nothing. 409 says why it cannot be booked."""
    now_us = _now_us(request)
    letter = await _asked(
        request, lambda ledger: dead_letters.retry(ledger, letter_id, by=ADMIN, now_us=now_us)
    )
    return await _recounted(request, letter)


@router.post("/ledger/dead-letters/{letter_id}/resolve")
async def resolve_dead_letter(
    request: Request, letter_id: LetterId, body: Judgement
) -> dict[str, Any]:
    """A person has judged it: it breaks no law any more, and stays. 409 if it is resolved."""
    now_us = _now_us(request)
    letter = await _asked(
        request,
        lambda ledger: dead_letters.judge(
            ledger, letter_id, by=ADMIN, note=body.note, now_us=now_us
        ),
    )
    return await _recounted(request, letter)


async def _recounted(request: Request, letter: Letter) -> dict[str, Any]:
    """It is done in SQL, whether or not Redis answers."""
    try:
        await dead_letters.ask_to_recount(parts_of(request).redis, letter)
    except (RedisError, OSError) as away:
        log.warning("what Redis counts is not set anew after a dead letter: %s", away)
    return _shown(letter)


async def _asked(request: Request, work: Callable[[Store], Letter]) -> Letter:
    """A use case of dead letters; its named failures become 404 and 409."""
    ledger = parts_of(request).ledger
    try:
        return await attempt(lambda: work(ledger))
    except UnknownLetter as unknown:
        raise ApiError(404, f"There is no dead letter {unknown}.", code="not_found") from unknown
    except AlreadyResolved as done:
        raise ApiError(409, f"Nothing was changed: {done}.", code="conflict") from done
    except StillDead as dead:
        raise ApiError(409, f"It cannot be booked: {dead}.", code="conflict") from dead


def _shown(letter: Letter) -> dict[str, Any]:
    done = letter.resolution
    return {
        "id": letter.number,
        "object": "dead_letter",
        "reason": letter.reason,
        "detail": letter.detail,
        "request": letter.rid or None,
        "kind": letter.kind,
        "shard": letter.shard,
        "entry": letter.entry,
        "created_at": at(letter.created_us),
        "resolution": done
        and {
            "outcome": done.outcome.value,
            "by": done.by,
            "note": done.note,
            "resolved_at": at(done.at_us),
        },
    }


def _now_us(request: Request) -> int:
    return round(parts_of(request).outside.clock() * 1e6)
