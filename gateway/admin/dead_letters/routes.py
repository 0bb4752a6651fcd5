"""`/admin/v1/ledger/dead-letters`: what the ledger could not book, tried again or judged."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from gateway.admin.dead_letters.schemas import (
    DeadLetter,
    DeadLetters,
    DeadLetterWithPayload,
    Judgement,
)
from gateway.admin.dead_letters.service import Letters
from gateway.api.pages import BEHIND, LIMIT_MAX
from gateway.fields import EXACT_MAX

router = APIRouter(prefix="/ledger/dead-letters", tags=["dead letters"])

LetterId = Annotated[int, Path(ge=1, le=EXACT_MAX)]


@router.get("", response_model=DeadLetters)
async def list_dead_letters(
    letters: Letters,
    resolved: bool = Query(False, description="those that are resolved, too"),
    limit: int = Query(100, ge=1, le=LIMIT_MAX),
    after: int = Query(0, ge=0, le=EXACT_MAX, description=BEHIND),
) -> Any:
    """The oldest first."""
    return await letters.page(resolved, after, limit)


@router.get("/{letter_id}", response_model=DeadLetterWithPayload)
async def show_dead_letter(letters: Letters, letter_id: LetterId) -> Any:
    """With its payload, in which there are no prompts and no answers."""
    return await letters.letter(letter_id)


@router.post("/{letter_id}/retry", response_model=DeadLetter)
async def retry_dead_letter(letters: Letters, letter_id: LetterId) -> Any:
    """Booked as the ledger would have; again changes nothing. 409 says why it cannot be booked."""
    return await letters.retry(letter_id)


@router.post("/{letter_id}/resolve", response_model=DeadLetter)
async def resolve_dead_letter(letters: Letters, letter_id: LetterId, body: Judgement) -> Any:
    """A person has judged it: it breaks no law any more, and stays. 409 if it is resolved."""
    return await letters.judge(letter_id, body.note)
