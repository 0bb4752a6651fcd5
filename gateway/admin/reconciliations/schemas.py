"""Bills of providers beside what was booked."""

from typing import Literal

from pydantic import Field

from gateway.api.schemas import Answer, At, Body, Usd

FILE_CHARS_MAX = 8_000_000


class ReconciliationBody(Body):
    file: str = Field(
        max_length=FILE_CHARS_MAX,
        description="CSV with the columns day, model, usage_class, quantity and amount, in USD",
        examples=["day,model,usage_class,quantity,amount\n2026-11-02,big-1,input,1200000,2.40\n"],
    )
    dry_run: bool = Field(False, description="compare, and post nothing")


class BilledClassAnswer(Answer):
    usage_class: str
    billed_quantity: str
    booked_quantity: str
    billed_usd: Usd = Field(validation_alias="billed_nanousd")


class DifferenceAnswer(Answer):
    day: str
    model: str = Field(description="as the provider calls it")
    billed_usd: Usd = Field(validation_alias="billed_nanousd")
    booked_usd: Usd = Field(validation_alias="booked_nanousd", description="for its attempts")
    posted_before_usd: Usd = Field(
        validation_alias="posted_nanousd", description="by earlier bills of the same day"
    )
    variance_usd: Usd = Field(
        validation_alias="variance_nanousd", description="billed less booked and posted before"
    )
    classes: list[BilledClassAnswer]


class ReconciliationAnswer(Answer):
    object: Literal["reconciliation"] = "reconciliation"
    provider: str
    sha256: str = Field(description="of the file: it is posted once")
    first_day: str
    last_day: str
    posted_at: At | None = Field(validation_alias="posted_us", description="null: it was not")
    posted_by: str | None
    is_new: bool = Field(description="this request has posted it")
    billed_usd: Usd = Field(validation_alias="billed_nanousd")
    booked_usd: Usd = Field(validation_alias="booked_nanousd")
    variance_usd: Usd = Field(validation_alias="variance_nanousd")
    lines: list[DifferenceAnswer]
