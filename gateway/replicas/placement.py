"""Which replica takes an attempt, and the work that this gateway has outstanding at each.

Owns the counters, what is known of the replicas' caches, and what other gateways said last of their
own counters (`gateway/replicas/shared_counts.py` reads that). Decides by `routing/replicas`. Never
waits: nothing here is input or output.
"""

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from math import inf
from random import Random

import msgspec

from gateway.call.meter import Meter
from gateway.call.request import Payload
from routing.cost import expected_output_tokens
from routing.replicas.blocks import NO_CHAIN, Beginning, Chain, chain_of, mark_of
from routing.replicas.choice import (
    Demand,
    Option,
    able,
    choose,
    home_of,
    weighed,
    with_guess,
    work_of,
)
from routing.replicas.prefixes import KnownPrefixes
from routing.replicas.work import NO_WORK, Outstanding, Work
from routing.types import Call, PoolState

SESSION_HEADER = "x-session-id"
HINT_CHARS_MAX = 256
"""More of a session's name than that is not read."""
UNTOLD_MAX = 64
"""Prompts in one round. Of more the newest are told."""


def beginning_of(payload: Payload, hint: str, organization: str) -> Beginning:
    """Made once for each call, however often a place is looked for."""
    prompt = payload.prefix()
    chain = chain_of(prompt, organization) if prompt else NO_CHAIN
    mark = mark_of(hint, organization) if hint else NO_CHAIN
    return Beginning(chain, hint, organization, mark)


def hint_of(headers: Mapping[str, str], prompt_cache_key: str | None) -> str:
    """The caller's word for calls that belong together: a header of a session, or OpenAI's field.
    Empty where there is none."""
    return (headers.get(SESSION_HEADER) or prompt_cache_key or "")[:HINT_CHARS_MAX]


class Computed(msgspec.Struct, frozen=True, array_like=True):
    """A prompt that a place has computed, the room for prefixes there, and until when it keeps
    them."""

    place: str
    chain: Chain
    cache_tokens: int
    until_s: float = inf


class Chosen(msgspec.Struct, frozen=True):
    """A replica for an attempt, what the attempt adds to it, and what it will have computed."""

    replica_id: str
    address: str
    work: Work
    chain: Chain
    cache_tokens: int


class OpenPlace:
    """One attempt at a replica, counted until it is closed."""

    def __init__(self, placement: "Placement", chosen: Chosen) -> None:
        self._placement = placement
        self._chosen = chosen
        self._piece = placement.outstanding.begin(chosen.replica_id, chosen.work)
        self._meter: Meter | None = None
        placement.open.add(self)

    def computed(self, meter: Meter) -> None:
        """The first token is here. From now on `meter` says how long the answer is."""
        chosen = self._chosen
        self._meter = meter
        self._piece.computed()
        self._placement.remember(Computed(chosen.replica_id, chosen.chain, chosen.cache_tokens))

    def look(self) -> None:
        """Count what has come of the answer by now."""
        if self._meter is not None:
            self._piece.grew(self._meter.output)

    def close(self) -> None:
        self._piece.end()
        self._placement.open.discard(self)


class Placement:
    """Chooses among the warm replicas of a pool. `others` is the work of all other gateways."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.outstanding = Outstanding()
        self.prefixes = KnownPrefixes()
        self.others: Mapping[str, Work] = {}
        self.untold: deque[Computed] = deque(maxlen=UNTOLD_MAX)
        """What other gateways do not know of caches yet."""
        self.open: set[OpenPlace] = set()

    def choose(
        self,
        state: PoolState,
        call: Call,
        beginning: Beginning,
        excluded: Collection[str],
    ) -> Chosen | None:
        """None where no replica may take the call."""
        replicas = able(state, excluded)
        if not replicas:
            return None
        prompt_tokens = call.prompt_tokens[state.pool.model]
        demand = Demand(prompt_tokens, round(expected_output_tokens(call)))
        chain, known = beginning.chain, self.prefixes.blocks_known
        options: Sequence[Option] = [
            Option(
                replica,
                weighed(state, replica, self.counted(replica.id), demand),
                chain.tokens(known(replica.id, chain), prompt_tokens),
            )
            for replica in replicas
        ]
        if beginning.hint:
            home = home_of(beginning.hint, beginning.salt, replicas)
            options = with_guess(options, home, demand)
        option = choose(state, options, demand, self._rng)
        if option is None:
            return None
        replica, gauges = option.replica, option.replica.gauges
        return Chosen(
            replica.id,
            replica.address,
            work_of(demand, option.cached_tokens),
            chain,
            gauges.cache_tokens_total if gauges else 0,
        )

    def remember(self, computed: Computed) -> None:
        """What came of a call of this gateway, which others are told."""
        self.hear(computed)
        if computed.chain.blocks:
            self.untold.append(computed)

    def hear(self, computed: Computed) -> None:
        """What a place has computed, whoever's call it was."""
        self.prefixes.remember(
            computed.place, computed.chain, computed.cache_tokens, computed.until_s
        )

    def look(self) -> None:
        """Count what has come of all open answers by now. Done beside the calls: it would cost each
        chunk of each stream something."""
        for place in self.open:
            place.look()

    def counted(self, replica_id: str) -> Work:
        """What all gateways have outstanding there."""
        own, others = self.outstanding.at(replica_id), self.others.get(replica_id)
        return own if others is None else own.beside(others)


def together(counts: Collection[Mapping[str, Work]]) -> dict[str, Work]:
    """The sum of several gateways' work by replica."""
    sums: dict[str, Work] = {}
    for of_one in counts:
        for replica_id, work in of_one.items():
            sums[replica_id] = sums.get(replica_id, NO_WORK).beside(work)
    return sums
