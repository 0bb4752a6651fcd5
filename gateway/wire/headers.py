"""Response headers in the words clients already read: ids, timing, rate limits, our own."""

from collections.abc import Mapping

from billing.limits.types import RateState
from gateway.open_call import OpenCall
from routing.types import Candidate

RawHeaders = list[tuple[bytes, bytes]]


def raw(headers: Mapping[str, str]) -> RawHeaders:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def identity(request_id: str, arrived_s: float, now_s: float) -> dict[str, str]:
    return {
        "x-request-id": request_id,
        "openai-processing-ms": str(max(0, round((now_s - arrived_s) * 1000))),
    }


def limits(open_call: OpenCall) -> dict[str, str]:
    """OpenAI's `x-ratelimit-*` of the tightest scope; nothing for a dimension without a limit."""
    return rate("requests", open_call.requests) | rate("tokens", open_call.tokens)


def route(candidate: Candidate) -> dict[str, str]:
    return {
        "x-sluice-pool": candidate.pool,
        "x-sluice-tier": candidate.tier.value,
        "x-sluice-decision": f"{candidate.pool} {candidate.reason}",
    }


def go_duration(milliseconds: int) -> str:
    """A duration as Go prints it: `0s`, `12ms`, `1.5s`, `6m0s`."""
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    minutes, rest_ms = divmod(milliseconds, 60_000)
    seconds = f"{rest_ms / 1000:.3f}".rstrip("0").rstrip(".") + "s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}"
    return f"{minutes}m{seconds}" if minutes else seconds


def rate(dimension: str, state: RateState | None) -> dict[str, str]:
    if state is None:
        return {}
    return {
        f"x-ratelimit-limit-{dimension}": str(state.limit),
        f"x-ratelimit-remaining-{dimension}": str(state.remaining),
        f"x-ratelimit-reset-{dimension}": go_duration(state.reset_ms),
    }
