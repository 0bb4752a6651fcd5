"""What running a call costs and how long it takes, from a pool's own figures.

Pure arithmetic. Decoding is bound by memory bandwidth, so concurrent calls share a step nearly
for free: a call on a replica with `max_ongoing` slots is charged its share of the busy time.
"""

from routing.types import Call, Pool, PoolState, ReplicaState

TOKENS_PER_MTOK = 1_000_000
PAID_FOR = (ReplicaState.STARTING, ReplicaState.WARM)


def service_s(pool: Pool, prompt_tokens: int, output_tokens: int) -> float:
    """Seconds of one call alone on a warm replica: prefill, then one step a token."""
    return prompt_tokens / pool.prefill_tokens_per_s + output_tokens / pool.decode_tokens_per_s


def run_cost_nanousd(pool: Pool, prompt_tokens: int, output_tokens: int) -> int:
    """Our expected cost of one call: per token outside, per shared busy second on own workers."""
    if pool.is_external:
        tokens_cost = (
            prompt_tokens * pool.cost_input_nanousd_per_mtok
            + output_tokens * pool.cost_output_nanousd_per_mtok
        )
        return tokens_cost // TOKENS_PER_MTOK
    busy_s = service_s(pool, prompt_tokens, output_tokens)
    return round(busy_s * pool.cost_nanousd_per_s / max(1, pool.max_ongoing))


def start_cost_nanousd(state: PoolState) -> int:
    """What starting a replica for this call costs: the cold start's seconds at pool price.

    A replica that is already starting, or warm, has been paid for by somebody else's need; one
    that drains has to be started again.
    """
    if state.pool.is_external or any(r.state in PAID_FOR for r in state.replicas):
        return 0
    return round(state.pool.cold_start_s * state.pool.cost_nanousd_per_s)


def expected_output_tokens(call: Call) -> int:
    """Half the ceiling: without knowledge of the answer, the middle is the least surprising."""
    return (call.output_tokens_max + 1) // 2


def wait_s(state: PoolState, call: Call, now_s: float) -> float:
    """Seconds until a replica of this pool can begin the call.

    Warm with a free slot: none. Warm and full: one mean service time per round of waiting
    calls. Starting: the rest of the expected start. Cold: the whole of it.
    """
    pool = state.pool
    if pool.is_external:
        return 0.0
    warm = [r for r in state.replicas if r.state is ReplicaState.WARM]
    if warm:
        return _queue_wait_s(state, call, len(warm))
    starting = [r for r in state.replicas if r.state is ReplicaState.STARTING]
    if starting:
        started_s = min(r.since_ms for r in starting) / 1000
        return max(0.5, pool.cold_start_s - (now_s - started_s))
    return pool.cold_start_s


def _queue_wait_s(state: PoolState, call: Call, warm_count: int) -> float:
    open_calls = sum(
        max(r.running + r.queued, state.in_flight.get(r.id, 0))
        for r in state.replicas
        if r.state is ReplicaState.WARM
    )
    slots = warm_count * max(1, state.pool.max_ongoing)
    beyond = open_calls + state.waiting - slots + 1
    if beyond <= 0:
        return 0.0
    prompt_tokens = call.prompt_tokens[state.pool.model]
    return (beyond / slots) * service_s(state.pool, prompt_tokens, expected_output_tokens(call))
