"""What the ledger could not book, and what became of it."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, NonNegativeInt, StringConstraints

from billing.writer.dead_letters import LetterOutcome, readable
from gateway.api.schemas import Answer, At, Body, NoneIfEmpty, Page


class Judgement(Body):
    note: Annotated[
        str,
        StringConstraints(
            strip_whitespace=True, min_length=1, max_length=2000, pattern=r"^[^\x00]*$"
        ),
    ] = Field(description="why, in words; it is kept with the letter", examples=["a test call"])


class LetterResolution(Answer):
    outcome: LetterOutcome
    by: str
    note: str
    resolved_at: At = Field(validation_alias="at_us")


class DeadLetter(Answer):
    object: Literal["dead_letter"] = "dead_letter"
    id: NonNegativeInt = Field(validation_alias="number")
    reason: str
    detail: str
    request: NoneIfEmpty = Field(validation_alias="rid")
    kind: str
    shard: int
    entry: str
    created_at: At = Field(validation_alias="created_us")
    resolution: LetterResolution | None


class DeadLetterWithPayload(DeadLetter):
    payload: Annotated[Any, BeforeValidator(readable)] = Field(
        description="as JSON where it is JSON, else as text"
    )


class DeadLetters(Page[DeadLetter]):
    last_id: NonNegativeInt | None
