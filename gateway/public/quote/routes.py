"""`POST /v1/quote`: what a call would cost and where it would go."""

from typing import Any

from fastapi import APIRouter, Depends, Request

from gateway.api.dependencies import Caller, require_json, whole_body
from gateway.public.quote.schemas import QuoteAnswer
from gateway.public.quote.service import Quotes

router = APIRouter(prefix="/v1", tags=["quote"], dependencies=[Depends(require_json)])


@router.post("/quote", response_model=QuoteAnswer)
async def quote(request: Request, caller: Caller, quotes: Quotes) -> Any:
    """Body: `url`, say `/v1/chat/completions`, and the `body` of the call. One of a call that
    sends a file has `seconds` or `bytes` in its place."""
    return await quotes.quote(caller, request.headers, await whole_body(request))
