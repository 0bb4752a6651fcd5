"""What is said of a key whose call cannot be run, or whose answer cannot be told again.

Each names the call that ran; what it was charged, where that is known; and what to do.
"""

from billing.money import usd
from gateway.errors import ApiError, deadline_passed, overloaded
from gateway.idempotency.tape import TapeState

RETRY_S = 1.0
"""How long Redis or the ledger is away, and a call lasts, nobody knows: they are looked for."""
NEW_KEY = "Send a new Idempotency-Key to ask again."
NOT_RUN = "This request was not run."


def out_of_reach() -> ApiError:
    return overloaded(f"Idempotency keys are out of reach. {NOT_RUN}", RETRY_S)


def unknown() -> ApiError:
    """Redis was lost, and not all that ran before has been told to it."""
    message = "What ran under Idempotency-Keys before Redis was lost is not known again yet."
    return overloaded(f"{message} {NOT_RUN}", RETRY_S)


def ledger_away() -> ApiError:
    message = "Whether a call ran under this Idempotency-Key cannot be looked up in the ledger now."
    return overloaded(f"{message} {NOT_RUN}", RETRY_S)


def unsettled(request_id: str) -> ApiError:
    message = f"{request_id} ran under this Idempotency-Key; its charge is not in the ledger yet."
    return overloaded(f"{message} {NOT_RUN}", RETRY_S)


def too_late_to_claim() -> ApiError:
    message = "The deadline passed before it was known whether a call ran under this"
    return deadline_passed(f"{message} Idempotency-Key. {NOT_RUN}", RETRY_S)


def too_late_to_follow(request_id: str) -> ApiError:
    message = f"The deadline passed, and {request_id}, which runs under this Idempotency-Key, has"
    return deadline_passed(f"{message} no answer yet. Send it again to be told it.", RETRY_S)


def lost(request_id: str, charged_nanousd: int) -> ApiError:
    """Terminal: the call does not run again under this key."""
    cost = usd(charged_nanousd)
    return ApiError(
        502,
        f"{request_id} ran under this Idempotency-Key and ended before its answer was kept whole; "
        f"{cost} USD were charged for it. {NEW_KEY}",
        type="server_error",
        code="idempotent_run_lost",
        stop_retrying=True,
        extra_headers={"x-sluice-cost-usd": cost},
    )


def vanished(request_id: str) -> ApiError:
    """In the middle of a replay."""
    message = f"The rest of the answer of {request_id} is not in Redis any more."
    return overloaded(f"{message} Send the call again to be told what became of it.", RETRY_S)


def unkept(request_id: str, why: TapeState) -> ApiError:
    if why is TapeState.TOO_LARGE:
        return ApiError(
            410,
            f"The answer of {request_id} is too large to be replayed. It was made once, and is not "
            f"made again. {NEW_KEY}",
            code="idempotent_answer_too_large",
            stop_retrying=True,
        )
    reason = "Redis lost its beginning while it was made"
    if why is TapeState.NO_ROOM:
        reason = "the answers that are kept for your organization left no more room for it"
    return _without_answer(
        f"The answer of {request_id} is not kept: {reason}. It is not made again."
    )


def ran_before(request_id: str, charged_nanousd: int) -> ApiError:
    """The ledger knows the call; Redis does not."""
    cost = usd(charged_nanousd)
    return _without_answer(
        f"{request_id} ran under this Idempotency-Key, and {cost} USD were charged for it; its "
        "answer is not kept any more.",
        {"x-sluice-cost-usd": cost},
    )


def _without_answer(message: str, headers: dict[str, str] | None = None) -> ApiError:
    return ApiError(
        410,
        f"{message} {NEW_KEY}",
        code="idempotent_answer_not_kept",
        stop_retrying=True,
        extra_headers=headers,
    )
