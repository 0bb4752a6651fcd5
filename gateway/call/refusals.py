"""What the limiter's no looks like to the caller: 429, 402 or 400, with the time to wait."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from billing.budgets.budget import Budget
from billing.limits.types import Dimension, RateState, Refused, ScopeLimits
from billing.types import BudgetShare
from gateway.call.rate_headers import RATE_NAMES, rates
from gateway.errors import (
    ApiError,
    QuotaStatus,
    bad_request,
    insufficient_quota,
    rate_limited,
)

WORDS = {
    Dimension.REQUESTS: "requests per minute",
    Dimension.TOKENS: "tokens per minute",
    Dimension.INPUT_TOKENS: "input tokens per minute",
    Dimension.OUTPUT_TOKENS: "output tokens per minute",
    Dimension.CONCURRENCY: "calls at once (concurrency)",
}


def refusal(
    answer: Refused,
    scopes: Sequence[ScopeLimits],
    quota_status: QuotaStatus,
    output_tokens: int = 0,
) -> ApiError:
    """`scopes` are the ones that were asked, the one that refused among them; `quota_status` is
    that of a call whose money is gone, `output_tokens` are those it had to cover."""
    error = _refusal(answer, scopes, quota_status, output_tokens)
    _, is_of_model, model = answer.scope.partition("/model:")
    error.limited_model = model if is_of_model else None
    return error


def _refusal(
    answer: Refused,
    scopes: Sequence[ScopeLimits],
    quota_status: QuotaStatus,
    output_tokens: int,
) -> ApiError:
    where, after_s = answer.scope, (answer.retry_after_ms or 1000) / 1000
    match answer.dimension:
        case Dimension.BUDGET:
            subject = f"the budget of {where} does not cover {_call_of(output_tokens)}: /v1/key"
            return _too_little(subject, output_tokens, quota_status)
        case Dimension.CREDIT:
            subject = f"the credit of {where} does not cover {_call_of(output_tokens)}: /v1/credits"
            return _too_little(subject, output_tokens, quota_status)
        case Dimension.TOO_LARGE:
            words = WORDS[answer.of or Dimension.TOKENS].removesuffix(" per minute")
            return bad_request(
                f"The call asks for {answer.units} {words}, and {where} may never have more than"
                f" {answer.most} at once.",
                code="request_too_large_for_limit",
            )
        case dimension:
            limit = _limit(answer, scopes)
            message = f"Rate limit reached for {where} on {WORDS[dimension]}: limit {limit}."
            return rate_limited(message, after_s, rates(_states(answer, limit)))


def out_of_budget(
    budget: Budget, share: BudgetShare, quota_status: QuotaStatus, output_tokens: int
) -> ApiError:
    """What the no of a purse looks like to the caller: without a time to wait, for money comes
    back with the next period at the earliest."""
    again = f" It begins anew at {_utc(share.until_us)}." if share.until_us else ""
    name = f"the budget '{budget.name}' of {budget.owner}"
    subject = f"{name} does not cover {_call_of(output_tokens)}: /v1/key"
    return _too_little(subject, output_tokens, quota_status, again)


def _call_of(output_tokens: int) -> str:
    if not output_tokens:
        return "this call"
    return f"this call's prompt and {output_tokens} tokens of output"


def _too_little(
    subject: str, output_tokens: int, quota_status: QuotaStatus, again: str = ""
) -> ApiError:
    """Who named no ceiling may have to learn here that there is one."""
    less = f" or a 'max_tokens' below {output_tokens}" if output_tokens else ""
    return insufficient_quota(
        f"What is left of {subject} says what is left.{again} A shorter prompt{less} costs less.",
        quota_status,
    )


def _utc(epoch_us: int) -> str:
    return datetime.fromtimestamp(epoch_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _states(answer: Refused, limit: int) -> Mapping[Dimension, RateState]:
    """What is left of every dimension; nothing of the one that refused, until this call fits."""
    if answer.dimension not in RATE_NAMES:
        return answer.rates
    used_up = RateState(answer.scope, limit, 0, answer.retry_after_ms or 0)
    return {**answer.rates, answer.dimension: used_up}


def _limit(answer: Refused, scopes: Sequence[ScopeLimits]) -> int:
    limits = next(s for s in scopes if s.scope == answer.scope)
    return {
        Dimension.REQUESTS: limits.requests_per_minute,
        Dimension.TOKENS: limits.tokens_per_minute,
        Dimension.INPUT_TOKENS: limits.input_tokens_per_minute,
        Dimension.OUTPUT_TOKENS: limits.output_tokens_per_minute,
        Dimension.CONCURRENCY: limits.concurrency,
    }[answer.dimension] or 0
