"""What pools are expected to have computed of a prompt already, for decisions between pools.

Of our own pools it is what a replica has that would take the call now. A server outside keeps a
prompt for the `cache_s` of its pool after it was last used there. A hint of the caller's counts
there too: the conversation is the same, whatever its prompt begins with.
"""

from collections.abc import Mapping
from typing import Final

from gateway.catalog.fleet import FleetKeeper, outside_id
from gateway.replicas.placement import Computed, Placement
from routing.replicas.blocks import BLOCK_TOKENS, Beginning
from routing.replicas.choice import GUESSED_SHARE, able
from routing.replicas.prefixes import BLOCKS_MAX_EACH
from routing.types import Call, Clock, Pool, PoolState

ROOM_TOKENS: Final = BLOCKS_MAX_EACH * BLOCK_TOKENS
"""Of a server outside: as much as is kept of any place."""


class KnownPrompts:
    def __init__(self, placement: Placement, fleet: FleetKeeper, clock: Clock) -> None:
        self._placement = placement
        self._fleet = fleet
        self._clock = clock

    def tokens(self, call: Call, beginning: Beginning) -> Mapping[str, int] | None:
        """By pool of the call's models; None where none has anything of it."""
        holders = self._placement.prefixes.holders
        if not any(holders(each.blocks[0]) for each in beginning.chains):
            return None
        known = {
            state.pool.name: self._outside(state.pool, call, beginning)
            if state.pool.is_external
            else self._here(state, call, beginning)
            for state in self._fleet.snapshot(call.models).pools
        }
        return {pool: tokens for pool, tokens in known.items() if tokens} or None

    def sent_outside(self, pool: Pool, beginning: Beginning) -> None:
        """A server outside has begun to answer this prompt."""
        place, until_s = outside_id(pool.name), self._clock() + pool.cache_s
        for chain in beginning.chains:
            self._placement.remember(Computed(place, chain, ROOM_TOKENS, until_s))

    def _here(self, state: PoolState, call: Call, beginning: Beginning) -> int:
        """A replica that is full gives no credit, as when one is chosen. Nor does a stale
        picture."""
        chain, counted = beginning.chain, self._placement.counted
        if state.is_stale or not chain.blocks:
            return 0
        holders = self._placement.prefixes.holders(chain.blocks[0])
        blocks = [
            self._placement.prefixes.blocks_known(replica.id, chain)
            for replica in able(state)
            if replica.id in holders and counted(replica.id).calls < state.pool.max_ongoing
        ]
        return chain.tokens(max(blocks, default=0), call.likely_prompt_tokens(state.pool.model))

    def _outside(self, pool: Pool, call: Call, beginning: Beginning) -> int:
        """Tokens that it is known to have; of a conversation whose beginning is another one, a
        guess."""
        place, now_s = outside_id(pool.name), self._clock()
        known, prompt_tokens = self._placement.prefixes, call.likely_prompt_tokens(pool.model)
        if blocks := known.blocks_known(place, beginning.chain, now_s):
            return beginning.chain.tokens(blocks, prompt_tokens)
        is_same = known.blocks_known(place, beginning.mark, now_s) > 0
        return int(prompt_tokens * GUESSED_SHARE) if is_same else 0
