"""Which kind of failure an attempt's error is: the bridge from what adapters raise to the table of
`routing.health`. Pure."""

from gateway.upstream.answer import (
    Cut,
    Late,
    Misconfigured,
    Rejected,
    Reported,
    Saturated,
    Unreachable,
    UpstreamError,
)
from routing.health.failures import Failure, FailureKind

CONTEXT_LENGTH = "context_length_exceeded"
CONTENT_POLICIES = frozenset({"content_filter", "content_policy_violation"})
"""OpenAI's and Azure's words for an answer that their policy refuses."""
TOO_MANY = 429


def failure_of(failed: UpstreamError) -> Failure:
    """Of an attempt whose answer had not begun."""
    match failed:
        case Rejected(rejection=rejection):
            return Failure(_of_the_call(rejection.code))
        case Misconfigured():
            of_account = failed.is_of_account
            return Failure(FailureKind.REFUSED_US if of_account else FailureKind.NOT_THERE)
        case Saturated(retry_after_s=retry_after_s):
            if retry_after_s is None and _status(failed) != TOO_MANY:
                return Failure(FailureKind.SERVER_ERROR)
            return Failure(FailureKind.COOL_DOWN, retry_after_s)
        case Unreachable():
            return Failure(FailureKind.RESET)
        case Late():
            return Failure(FailureKind.SILENT)
        case Reported():
            return Failure(FailureKind.SERVER_ERROR)
        case Cut(fault=None):
            return Failure(FailureKind.NONSENSE)
        case Cut() if _status(failed) is not None:
            return Failure(FailureKind.SERVER_ERROR)
        case _:
            return Failure(FailureKind.RESET)


def _of_the_call(code: str | None) -> FailureKind:
    if code == CONTEXT_LENGTH:
        return FailureKind.CONTEXT_LENGTH
    return FailureKind.CONTENT_FILTER if code in CONTENT_POLICIES else FailureKind.CALLERS


def _status(failed: UpstreamError) -> int | None:
    return None if failed.fault is None else failed.fault.status
