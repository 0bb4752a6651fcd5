"""A call that a server outside answers whole, as its body says it."""

from collections.abc import Mapping
from typing import Any

from gateway.call.request import GeneratingRequest, Payload, Sold
from gateway.wire.answer import Form, SoundForm
from gateway.wire.bodies.provider import preferences_of, price_max_of
from gateway.wire.bodies.rules import CallBody


def whole_request(
    fields: CallBody,
    payload: Payload,
    form: Form | SoundForm,
    *,
    model: str,
    provider: Mapping[str, Any] | None = None,
    output_tokens_max: int | None = None,
    sold_by: Sold | None = None,
) -> GeneratingRequest:
    """`provider`: what the caller narrows the choice by, where the body may say it."""
    return GeneratingRequest(
        model=model,
        payload=payload,
        form=form,
        streaming=None,
        output_tokens_max=output_tokens_max,
        service_tier=fields.service_tier or "auto",
        end_user=fields.user or None,
        end_user_param="user",
        preferences=preferences_of(provider),
        price_max=price_max_of(provider),
        sold_by=sold_by,
    )
