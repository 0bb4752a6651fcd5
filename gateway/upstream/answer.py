"""What the adapters hand back: an opened stream of frames, or one of four ways it went wrong."""

from dataclasses import dataclass


class UpstreamError(Exception):
    """`outcome` is the word that stands in the attempt's record."""

    outcome = "failed"


class Unreachable(UpstreamError):
    """No connection was made, or the worker is on its way down: nothing was dispatched."""

    outcome = "unreachable"


class Saturated(UpstreamError):
    """Alive, but taking no more calls now. `retry_after_s` is its own word, if it gave one."""

    outcome = "saturated"

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Cut(UpstreamError):
    """The stream broke, stalled or talked nonsense before it was finished."""

    outcome = "cut"


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
