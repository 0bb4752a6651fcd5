"""What a call costs at a pool and how long it takes, from the pool's speeds, prices and replicas.

Pure arithmetic. A prompt is bound by computation and has its time for itself. Decoding is bound by
memory bandwidth: calls share a step nearly for free, and each costs its share of it. All of it is
linear in the tokens of a call, so `terms_of` is made once for a pool's state.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from routing.economics.rates import PRIOR_LOSSES_PER_S
from routing.speeds import QUANTILES
from routing.types import Call, CapacityClass, Pool, PoolState, ReplicaState

TOKENS_PER_MTOK = 1_000_000
ANSWER_S_MIN = 0.005
"""Sooner no model begins an answer, on whatever hardware."""
NO_QUEUE: Final = 1 << 62
"""The room of what nobody queues for: a server outside, a pool without a replica."""
SPOT = CapacityClass.SPOT  # what an enum names costs Python 3.11 a function call


@dataclass(slots=True)
class Terms:
    """What a pool's state means for every call. Costs are ours, in nano-USD.

    A call of P prompt tokens, C more that are cached, and O output tokens costs `start + P * prompt
    + C * cached + O * output`. It begins after `wait_s` and one service for each round of calls
    before it, and has its first token `first_fixed_s + P * first_s_per_token` later. Nobody changes
    it: a frozen class takes thrice as long to make, a tuple five times as long to read.
    """

    pool: Pool
    number: int
    """The same in every process, drawn from the pool's name. It breaks ties."""
    start_nanousd: float
    prompt_nanousd: float
    cached_nanousd: float
    output_nanousd: float
    wait_s: float | None
    """Until a replica is there. None: that depends on the clock, see `start_wait_s`."""
    open_calls: int
    """As the fleet tells it. Gateways may know of more."""
    room: int
    """How many open calls leave one slot free."""
    slots: int
    first_fixed_s: float
    first_s_per_token: float
    step_s: float
    ttft_factors: tuple[float, ...]
    soonest_factor: float
    """Of the expected time to the first token: 19 in 20 calls take longer. 0: nobody knows."""
    losses_per_s: float
    kept_share: float
    loses_work: bool
    """Whether what a lost replica was at counts, beside what the rule says it is worth."""


def terms_of(state: PoolState) -> Terms:
    pool, speeds = state.pool, state.speeds
    prompt, cached, output = _costs_per_token(state)
    warm = [r for r in state.replicas if r.state is ReplicaState.WARM]
    waits = not (pool.is_external or warm)
    slots = len(warm) * max(1, pool.max_ongoing)
    depends_on_clock = waits and (state.ready_at_s is not None or _is_starting(state))
    return Terms(
        pool=pool,
        number=int.from_bytes(blake2b(pool.name.encode(), digest_size=8).digest()),
        start_nanousd=start_cost_nanousd(state),
        prompt_nanousd=prompt,
        cached_nanousd=cached,
        output_nanousd=output,
        wait_s=None if depends_on_clock else pool.cold_start_s if waits else 0.0,
        open_calls=sum([r.running + r.queued for r in warm]),
        room=slots - state.waiting - 1 if warm else NO_QUEUE,
        slots=max(1, slots),
        first_fixed_s=speeds.first_fixed_s,
        first_s_per_token=speeds.first_s_per_token,
        step_s=speeds.step_s,
        ttft_factors=speeds.ttft_factors,
        soonest_factor=0.0 if state.learned is None else speeds.ttft_factors[0],
        losses_per_s=_losses_per_s(state),
        kept_share=state.kept_share,
        loses_work=pool.capacity_class is SPOT and state.losses_per_s is not None,
    )


def _losses_per_s(state: PoolState) -> float:
    if state.pool.capacity_class is not SPOT:
        return 0.0
    return PRIOR_LOSSES_PER_S if state.losses_per_s is None else state.losses_per_s


def _costs_per_token(state: PoolState) -> tuple[float, float, float]:
    """Of prompts, of what is cached of them, and of answers: by the token outside, by the busy
    second on own workers, which spend none on what they have computed."""
    pool, speeds = state.pool, state.speeds
    if not pool.is_external:
        price = pool.cost_nanousd_per_s
        return speeds.prompt_busy_s * price, 0.0, speeds.busy_s_per_token * price
    fresh = cached = pool.cost_input_nanousd_per_mtok
    if pool.cost_cached_input_nanousd_per_mtok is not None:
        cached = min(fresh, pool.cost_cached_input_nanousd_per_mtok)
    prompt = fresh - state.cached_share * (fresh - cached)
    output = pool.cost_output_nanousd_per_mtok
    return prompt / TOKENS_PER_MTOK, cached / TOKENS_PER_MTOK, output / TOKENS_PER_MTOK


def list_prompt_nanousd(terms: Terms) -> float:
    """Of a token that is not cached, for who bounds what a pool may cost."""
    pool = terms.pool
    if pool.is_external:
        return pool.cost_input_nanousd_per_mtok / TOKENS_PER_MTOK
    return terms.prompt_nanousd


def start_cost_nanousd(state: PoolState) -> float:
    """The cost of starting a replica, shared by the calls that are expected of a start.

    How many calls wait now does not count, or a longer queue would look cheaper.
    """
    if state.pool.is_external or state.is_paid_for:
        return 0.0
    return state.pool.cold_start_s * state.pool.cost_nanousd_per_s / max(1.0, state.calls_per_start)


def expected_output_tokens(call: Call) -> float:
    """Half the ceiling where nobody knows: the middle is the least surprising."""
    expected = call.output_tokens_expected
    return (call.output_tokens_max + 1) // 2 if expected is None else expected


def service_s(terms: Terms, prompt_tokens: float, output_tokens: float) -> float:
    """Seconds of one call on a warm replica: its prompt, then one step a token."""
    first_s = terms.first_fixed_s + prompt_tokens * terms.first_s_per_token
    return first_s + output_tokens * terms.step_s


def wait_s(state: PoolState, call: Call, now_s: float, in_flight: int = 0) -> float:
    """Seconds until a replica of this pool can begin the call.

    A warm replica with a free slot, or a server outside: none. Warm and full: one mean service time
    per round of waiting calls. Else until a replica is there.
    """
    terms = terms_of(state)
    begins_s = start_wait_s(state, now_s) if terms.wait_s is None else terms.wait_s
    prompt_tokens = call.likely_prompt_tokens(state.pool.model)
    service = service_s(terms, prompt_tokens, expected_output_tokens(call))
    return begins_s + rounds_before(terms, in_flight) * service


def start_wait_s(state: PoolState, now_s: float) -> float:
    """Seconds until a pool without a warm replica has one.

    Lost: until the pool is expected back. Starting: until the first of its starts ends, as the
    controller predicts it, else the rest of the expected start; one that is late already is
    expected to take as long again as it is late. Cold: all of it.
    """
    if state.ready_at_s is not None:
        return max(0.5, state.ready_at_s - now_s)
    starting = [r.since_ms for r in state.replicas if r.state is ReplicaState.STARTING]
    if not starting:
        return state.pool.cold_start_s
    left_s = [state.pool.cold_start_s - (now_s - since_ms / 1000) for since_ms in starting]
    return min(max(0.5, each_s, -each_s) for each_s in left_s)


def rounds_before(terms: Terms, in_flight: int) -> float:
    """How many rounds of calls are served before one more begins; 0 where a slot is free."""
    open_calls = terms.open_calls
    beyond = (in_flight if in_flight > open_calls else open_calls) - terms.room
    return beyond / terms.slots if beyond > 0 else 0.0


def _is_starting(state: PoolState) -> bool:
    return any(r.state is ReplicaState.STARTING for r in state.replicas)


def factor_at(terms: Terms, quantile: float) -> float:
    """What the expected time to the first token is multiplied with. A quantile between two known
    ones counts as the higher one."""
    known = zip(QUANTILES, terms.ttft_factors, strict=True)
    return next((factor for at, factor in known if at >= quantile), terms.ttft_factors[-1])
