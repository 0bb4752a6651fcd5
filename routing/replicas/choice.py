"""Which replica of a pool takes a call: the one where the least of its time is outstanding, with
credit for what it has computed of the prompt already.

Power of two choices (Mitzenmacher 2001) by outstanding time in place of calls. A prefix counts only
where a replica is not overloaded: affinity never beats overload. Pure; chance is an argument.
"""

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from routing.replicas.work import NO_WORK, Work, reconciled
from routing.speeds import Speeds
from routing.types import Pool, PoolState, Replica, ReplicaState

OVERLOAD = 1.25
"""Times the mean load, the call counted in, from where on a prefix is worth nothing. It is the
bound of consistent hashing with bounded loads (Mirrokni et al. 2016)."""
EXPLORED_SHARE = 0.01
"""Of calls that are placed by load alone, so that a prefix many calls share comes to more replicas
and what is wrongly believed of a cache is found out."""
ALL_WEIGHED_MAX = 4
"""So few replicas are all weighed: two of three, drawn, would miss the least loaded in a third of
all cases. Of more, two are drawn: gateways that know the same do not all choose the same one."""
GUESSED_SHARE = 0.5
"""Of a prompt, what a replica is taken to have computed because a hint leads there."""


class Demand(NamedTuple):
    """What a call asks of a replica: tokens of its prompt, and what is expected of its answer."""

    prompt_tokens: int
    output_tokens: int


class Option(NamedTuple):
    """A replica that may take the call, the work outstanding there, and how much of the prompt it
    is expected to have computed already."""

    replica: Replica
    work: Work = NO_WORK
    cached_tokens: int = 0


def able(state: PoolState, excluded: Collection[str] = ()) -> list[Replica]:
    """Replicas that may take a call: warm ones outside `excluded`. One that drains or sleeps may
    not."""
    return [r for r in state.replicas if r.state is ReplicaState.WARM and r.id not in excluded]


def weighed(state: PoolState, replica: Replica, work: Work, demand: Demand) -> Work:
    """What is outstanding at a replica. Of a stale picture only what gateways counted is known."""
    return work if state.is_stale else reconciled(replica, work, demand.output_tokens)


def choose(
    state: PoolState, options: Sequence[Option], demand: Demand, rng: Random
) -> Option | None:
    """The cheapest of two drawn ones (of all, where there are few) and of the one that knows most
    of the prompt. None where there is no option.

    A replica without room loses to any that has room. Whether it has is not known of a stale
    picture, where no prefix counts either."""
    if len(options) < 2:
        return options[0] if options else None
    by_load_alone = rng.random() < EXPLORED_SHARE
    options = _with_room(options, demand, state.pool) or options
    speeds = state.speeds
    loads = [load_s(option.work, speeds) for option in options]
    bound_s = OVERLOAD * (sum(loads) + load_s(work_of(demand), speeds)) / len(options)
    credits_prefixes = not (by_load_alone or state.is_stale)
    entries = [
        _entry(option, load, demand, speeds, credits=credits_prefixes and load <= bound_s)
        for option, load in zip(options, loads, strict=True)
    ]
    sample = entries if len(entries) <= ALL_WEIGHED_MAX else _drawn(entries, rng)
    return min(sample, key=lambda entry: (entry.cost_s, -entry.cached_tokens, rng.random())).option


def load_s(work: Work, speeds: Speeds) -> float:
    """Seconds of a replica's time that are outstanding."""
    prefill_s = work.prefill_tokens * speeds.first_s_per_token
    return prefill_s + work.output_tokens * speeds.busy_s_per_token


def work_of(demand: Demand, cached_tokens: int = 0) -> Work:
    """What a call adds to a replica."""
    uncached = max(0, demand.prompt_tokens - cached_tokens)
    return Work(1, uncached, demand.prompt_tokens, demand.output_tokens)


def home_of(hint: str, salt: str, replicas: Iterable[Replica]) -> str | None:
    """Where a hint leads: the same replica at every gateway, and another one only for the hints of
    a replica that is gone (rendezvous hashing, Thaler and Ravishankar 1998)."""
    seed = f"{salt}\0{hint}\0".encode()
    ids = [replica.id for replica in replicas]
    return max(ids, key=lambda each: _digest(seed + each.encode()), default=None)


def with_guess(options: Sequence[Option], home: str | None, demand: Demand) -> Sequence[Option]:
    """The options, with what the hint's home may have computed. That is a guess: it counts only
    where no other replica is known to have more of this prompt."""
    most = max((option.cached_tokens for option in options), default=0)
    guessed = int(demand.prompt_tokens * GUESSED_SHARE)
    return [
        option._replace(cached_tokens=max(guessed, most))
        if option.replica.id == home and option.cached_tokens == most
        else option
        for option in options
    ]


class _Entry(NamedTuple):
    option: Option
    cost_s: float
    cached_tokens: int


def _entry(option: Option, load: float, demand: Demand, speeds: Speeds, *, credits: bool) -> _Entry:
    cached = option.cached_tokens if credits else 0
    return _Entry(option, load + load_s(work_of(demand, cached), speeds), cached)


def _with_room(options: Sequence[Option], demand: Demand, pool: Pool) -> list[Option]:
    """Those where the call begins at once: a slot is free, and keys and values have room."""
    return [o for o in options if o.work.calls < pool.max_ongoing and _has_memory(o, demand)]


def _has_memory(option: Option, demand: Demand) -> bool:
    gauges = option.replica.gauges
    if gauges is None or not gauges.kv_tokens_total:
        return True
    needed = option.work.context_tokens + demand.prompt_tokens - option.cached_tokens
    return needed <= gauges.kv_tokens_total


def _drawn(entries: Sequence[_Entry], rng: Random) -> Sequence[_Entry]:
    two = rng.sample(entries, 2)
    nearest = max(entries, key=lambda entry: entry.cached_tokens)
    return [*two, nearest] if nearest.cached_tokens else two


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=8).digest()
