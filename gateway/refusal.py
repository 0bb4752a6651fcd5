"""What the limiter's no looks like to the caller: 429, 400 or 503, with the time to wait."""

from collections.abc import Sequence

from billing.limits.types import Dimension, RateState, Refused, ScopeLimits
from gateway.errors import ApiError, bad_request, insufficient_quota, overloaded, rate_limited
from gateway.wire.headers import rate


def refusal(refused: Refused, scopes: Sequence[ScopeLimits]) -> ApiError:
    """`scopes` are the ones that were asked, the one that refused among them."""
    where, after_s = refused.scope, (refused.retry_after_ms or 1000) / 1000
    match refused.dimension:
        case Dimension.BUDGET:
            return insufficient_quota(
                f"What is left of the budget of {where} does not cover this call: /v1/key says"
                " what is left. A shorter prompt or a smaller 'max_tokens' costs less."
            )
        case Dimension.TOO_LARGE:
            return bad_request(
                f"The call is larger than {where} may ever send at once.",
                code="request_too_large_for_limit",
            )
        case Dimension.UNPRIMED:
            return overloaded("The limiter is being rebuilt from the ledger.", after_s)
        case dimension:
            used_up = rate(dimension, _used_up(refused, scopes))
            message = f"Rate limit reached for {where} on {dimension}."
            return rate_limited(message, after_s, used_up)


def _used_up(refused: Refused, scopes: Sequence[ScopeLimits]) -> RateState | None:
    """The bucket that refused: nothing remains of it, and when this call would fit."""
    limits = next(s for s in scopes if s.scope == refused.scope)
    per_minute = {
        Dimension.REQUESTS: limits.requests_per_minute,
        Dimension.TOKENS: limits.tokens_per_minute,
    }.get(refused.dimension)
    if per_minute is None:
        return None
    return RateState(refused.scope, per_minute, 0, refused.retry_after_ms or 0)
