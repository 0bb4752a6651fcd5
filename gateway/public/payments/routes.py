"""`POST /v1/webhooks/payments/{seller}`: payments that a seller's payment service tells, signed as
Stripe signs."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Request

from billing.credits import grants
from billing.payments.paying import NotPayable, PaymentConflict
from billing.payments.payment import BadPayment
from billing.payments.stripe_event import BODY_BYTES_MAX, BadEvent, BadSignature
from billing.payments.stripe_paying import BookedEvent, book_event
from billing.settings import guards_of
from gateway.admin.use_cases import attempt
from gateway.api.dependencies import parts_of, whole_body
from gateway.errors import ApiError, bad_request
from gateway.public.payments.schemas import EVENT, EventAnswer

router = APIRouter(prefix="/v1/webhooks/payments", tags=["payments"])

SellerId = Annotated[str, Path(max_length=64)]
Signature = Annotated[str, Header(max_length=2000, description="`t=SECONDS,v1=HEX`")]


@router.post(
    "/{seller}",
    response_model=EventAnswer,
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": EVENT}}}},
)
async def tell_payment(request: Request, seller: SellerId, stripe_signature: Signature = "") -> Any:
    """An event of Stripe's: the payment is of the invoice that `metadata.invoice` names. Without
    one it tops up `metadata.organization`. The same payment again is booked once. Other events are
    answered and change nothing."""
    parts = parts_of(request)
    body = await whole_body(request)
    if len(body) > BODY_BYTES_MAX:
        raise ApiError(413, "The event is too large.", code="request_too_large")
    now_s = parts.outside.clock()
    guards = guards_of(parts.settings.ledger, parts.settings.tax)
    try:
        booked = await attempt(
            lambda: book_event(parts.ledger, seller, stripe_signature, body, now_s, guards)
        )
    except BadSignature as wrong:
        raise ApiError(
            400, f"The signature does not hold: {wrong}.", code="bad_signature"
        ) from wrong
    except BadEvent as wrong:
        raise bad_request(str(wrong)) from wrong
    except BadPayment as wrong:
        raise bad_request(str(wrong), wrong.field) from wrong
    except NotPayable as state_of:
        raise ApiError(409, f"{state_of}.", code=state_of.code) from state_of
    except PaymentConflict as conflict:
        raise ApiError(409, f"{conflict}.", code="conflict") from conflict
    if booked is not None and booked.topped_up is not None:
        line = await attempt(lambda: grants.line_of(parts.ledger, str(booked.topped_up)))
        parts.accounts.credits.learn(line)
    return booked or BookedEvent()
