"""`POST /v1/quote`: what a call would cost and where it would go. Nothing is taken, nothing runs.

Walks steps 2 to 4 of the journey, which take nothing, with the very code that calls walk.
"""

import asyncio
from typing import Any

import msgspec
from fastapi import APIRouter, Depends, Request

from billing.money import usd
from billing.pricebook import Prices
from billing.rating import dearest, rate
from billing.types import Usage
from gateway.api.needs import Caller, parts_of, require_json, whole_body
from gateway.api.parsers import doors
from gateway.api.shapes import candidate
from gateway.auth import Principal
from gateway.errors import ApiError
from gateway.parts import Parts
from gateway.pipeline import Received
from gateway.wire.checks import check_fields, json_object, one_of
from gateway.wire.request import GeneratingRequest, Wanted
from routing.types import Call

router = APIRouter(prefix="/v1", tags=["public"], dependencies=[Depends(require_json)])


@router.post("/quote")
async def quote(request: Request, caller: Caller) -> dict[str, Any]:
    """Body: `url`, say `/v1/chat/completions`, and the `body` of the call."""
    parts = parts_of(request)
    raw = await whole_body(request)
    headers = dict(request.headers)
    return await asyncio.to_thread(_quoted, parts, caller, headers, raw)


def _quoted(parts: Parts, caller: Principal, headers: dict[str, str], raw: bytes) -> dict[str, Any]:
    url, wanted = _parsed(parts, raw)
    received = Received(parts.new_id("req"), parts.outside.clock(), headers, wanted, len(raw))
    call, priced = parts.pipeline.price(parts.pipeline.shape(received, caller))
    slice_tokens = parts.settings.gateway.output_slice_tokens
    return {
        "object": "quote",
        "url": url,
        "model": call.model_requested,
        "service_tier": call.tier.value,
        "price_version": priced.version_id,
        "output_tokens_max": call.output_tokens_max,
        "hold_usd": usd(priced.hold_nanousd(call, min(call.output_tokens_max, slice_tokens))),
        "models": [_of_model(call, model, prices) for model, prices in priced.prices.items()],
        **_decided(parts, call, wanted.wanted),
    }


def _parsed(parts: Parts, raw: bytes) -> tuple[str, GeneratingRequest]:
    """As a line of a batch: the route, and the body that it would get. Raises ApiError 400."""
    known = doors(parts.catalog)
    checks = {"url": one_of(*known), "body": _anything}
    check_fields(json_object(raw), checks, "url", "body")
    asked = msgspec.json.decode(raw, type=_Asked)
    return asked.url, known[asked.url].parse(bytes(asked.body))


class _Asked(msgspec.Struct):
    """What passed the checks; the body byte for byte."""

    url: str
    body: msgspec.Raw


def _anything(name: str, value: object) -> None:
    """The route that is asked about checks it."""


def _of_model(call: Call, model: str, prices: Prices) -> dict[str, Any]:
    """What the prompt costs where none of it is cached, and the most that the call may cost."""
    prompt_tokens = call.prompt_tokens[model]
    prompt = rate(Usage(input=prompt_tokens), prices)
    most = rate(dearest(prompt_tokens, call.output_tokens_max, prices), prices)
    return {
        "model": model,
        "prompt_tokens": prompt_tokens,
        "prompt_usd": usd(prompt.input_nanousd),
        "request_usd": usd(prompt.request_nanousd),
        "max_usd": usd(most.amount_nanousd),
    }


def _decided(parts: Parts, call: Call, wanted: Wanted) -> dict[str, Any]:
    """The decision as it would fall now, or the error that the call would get."""
    try:
        decision = parts.pipeline.decide(call, wanted)
    except ApiError as refused:
        error = refused.as_dict() | {"status": refused.status}
        return {"rule": None, "policy_revision": None, "candidates": [], "error": error}
    return {
        "rule": decision.rule,
        "policy_revision": decision.policy_revision,
        "candidates": [candidate(found._asdict()) for found in decision.candidates],
        "error": None,
    }
