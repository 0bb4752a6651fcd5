"""Response headers in the words clients already read: ids, timing, rate limits, our own."""

import re
from collections.abc import Mapping

from billing.limits.types import Dimension, RateState
from gateway.call.open_call import OpenCall
from routing.types import Candidate

_UNSENDABLE = re.compile(r"[\x00-\x08\n-\x1f\x7f]")
RawHeaders = list[tuple[bytes, bytes]]

RATE_NAMES = {
    Dimension.REQUESTS: "requests",
    Dimension.TOKENS: "tokens",
    Dimension.INPUT_TOKENS: "input-tokens",
    Dimension.OUTPUT_TOKENS: "output-tokens",
}
"""Dimensions in the names of headers; calls at once have none."""


def raw(headers: Mapping[str, str]) -> RawHeaders:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


def lines(headers: Mapping[str, str]) -> bytes | None:
    """The same as HTTP writes them, their names being ours; None where a value has something in it
    that HTTP cannot carry."""
    values = "".join(headers.values())
    if not (values.isascii() and values.isprintable()) and _UNSENDABLE.search(values):
        return None
    try:
        return "".join([f"{name}: {v}\r\n" for name, v in headers.items()]).encode("latin-1")
    except UnicodeEncodeError:
        return None


def identity(request_id: str, arrived_s: float, now_s: float) -> dict[str, str]:
    return {
        "x-request-id": request_id,
        "openai-processing-ms": str(max(0, round((now_s - arrived_s) * 1000))),
    }


def limits(open_call: OpenCall) -> dict[str, str]:
    return rates(open_call.rates)


def rates(states: Mapping[Dimension, RateState]) -> dict[str, str]:
    """OpenAI's `x-ratelimit-*` of the tightest scope of each dimension that has a limit, and the
    same in the words of the IETF's draft (draft-ietf-httpapi-ratelimit-headers-10)."""
    if not states:
        return {}
    headers = {}
    policy, state_items = [], []
    for dimension, state in states.items():
        name = RATE_NAMES[dimension]
        headers[f"x-ratelimit-limit-{name}"] = str(state.limit)
        headers[f"x-ratelimit-remaining-{name}"] = str(state.remaining)
        headers[f"x-ratelimit-reset-{name}"] = go_duration(state.reset_ms)
        policy.append(f'"{name}";q={state.limit};w=60')
        state_items.append(f'"{name}";r={state.remaining};t={-(-state.reset_ms // 1000)}')
    headers["ratelimit-policy"] = ", ".join(policy)
    headers["ratelimit"] = ", ".join(state_items)
    return headers


def route(candidate: Candidate) -> dict[str, str]:
    simulated = {"x-sluice-simulated": "true"} if candidate.is_simulated else {}
    return {
        "x-sluice-pool": candidate.pool,
        "x-sluice-tier": candidate.tier.value,
        "x-sluice-decision": f"{candidate.pool} {candidate.reason}",
        **simulated,
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
