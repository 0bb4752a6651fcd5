"""What the adapters hand back: an opened stream of frames, or one of the ways it went wrong, and
which kind of failure that is to the table of `routing.health`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.upstream.fault import Fault
from routing.health.failures import Failure, FailureKind

CONTEXT_LENGTH = "context_length_exceeded"
CONTENT_POLICIES = frozenset({"content_filter", "content_policy_violation"})
"""OpenAI's and Azure's words for an answer that their policy refuses."""
TOO_MANY = 429


class UpstreamError(Exception):
    """`outcome` is the word that stands in the attempt's record, and `fault` what the server said,
    for operators alone: the message may reach a tenant, but that of a fault never does."""

    outcome = "failed"
    fault: Fault | None = None


class Unreachable(UpstreamError):
    """No connection was made, or the worker is on its way down: nothing was dispatched."""

    outcome = "unreachable"


class Saturated(UpstreamError):
    """Alive, but taking no more calls now. `retry_after_s` is its own word, if it gave one."""

    outcome = "saturated"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class LeftAlone(UpstreamError):
    """Its breaker lets nothing through just now: it was not asked."""


class Cut(UpstreamError):
    """The stream broke, stalled or talked nonsense before it was finished."""

    outcome = "cut"


class Lost(Cut):
    """Whoever made the answer is gone, in the midst of it: what has come stands."""


class Malformed(Cut):
    """An event that nobody can read. Of a server outside it may be left out."""


class Differs(Cut):
    """It does not say what another server said whose answer was to go on here. That is no fault of
    it."""


class Misconfigured(UpstreamError):
    """A server outside refuses us, not this call: the pool's key, URL or model is wrong, or the
    account has no money. Nobody who calls can mend that."""

    outcome = "misconfigured"

    def __init__(self, message: str, *, is_of_account: bool = False) -> None:
        """`is_of_account`: of our key or our account there, and not of one URL or model."""
        super().__init__(message)
        self.is_of_account = is_of_account


class Reported(Cut):
    """The server's own error object, in an answer that had begun with status 200."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"the upstream reported: {error.get('message')}")
        self.error = error


class Late(Cut):
    """It did not begin within the time it had."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The upstream's own error object: the call itself is at fault, nobody else will take it."""

    status: int
    message: str
    code: str | None
    param: str | None


class Rejected(UpstreamError):
    outcome = "rejected"

    def __init__(self, rejection: Rejection) -> None:
        super().__init__(rejection.message)
        self.rejection = rejection


class HintsRefused(Rejected):
    """A server outside refuses `hints` of the call, and may take it without."""

    def __init__(self, rejection: Rejection, hints: tuple[str, ...]) -> None:
        super().__init__(rejection)
        self.hints = hints


def failure_of(failed: UpstreamError) -> Failure:
    """However far its answer had come."""
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
        case Lost():
            return Failure(FailureKind.CUT)
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
