"""What pools are expected to have computed of a prompt already, for decisions between pools.

Of our own pools it is what a replica has that would take the call now. A server outside keeps a
prompt for the `cache_s` of its pool after it was last used there. A hint of the caller's counts
there too: the conversation is the same, whatever its prompt begins with.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from gateway.catalog.fleet import FleetKeeper, outside_id
from gateway.replicas.placement import Computed, Placement
from routing.replicas.blocks import BLOCK_TOKENS, Beginning
from routing.replicas.choice import GUESSED_SHARE
from routing.replicas.prefixes import BLOCKS_MAX_EACH
from routing.types import Call, Clock, Pool, PoolState

HOLDERS_MAX: Final = 32
"""Places that are asked for a prompt. What more of them have is nobody's own conversation."""
ROOM_TOKENS: Final = BLOCKS_MAX_EACH * BLOCK_TOKENS
"""Of a server outside: as much as is kept of any place."""


class KnownPrompts:
    def __init__(self, placement: Placement, fleet: FleetKeeper, clock: Clock) -> None:
        self._placement = placement
        self._fleet = fleet
        self._clock = clock

    def with_prefixes(self, call: Call, beginning: Beginning) -> Call:
        """The call with what is known now. What a call waits for may outlast a cache."""
        tokens = self.tokens(call, beginning)
        return call if tokens == call.prefix_tokens else call._replace(prefix_tokens=tokens)

    def tokens(self, call: Call, beginning: Beginning) -> Mapping[str, int] | None:
        """By pool of the call's models; None where none has anything of it."""
        most: dict[str, int] = {}
        for place in self._holders(beginning):
            state = self._fleet.serving(place)
            if state is None or state.pool.model not in call.models:
                continue
            name, tokens = state.pool.name, self._tokens_at(place, state, call, beginning)
            if tokens > most.get(name, 0):
                most[name] = tokens
        return most or None

    def _holders(self, beginning: Beginning) -> Iterable[str]:
        """Copies, for threads that shape large calls while others are remembered."""
        of_block = self._placement.prefixes.holders
        holders = [tuple(of_block(chain.blocks[0])) for chain in beginning.chains]
        return {place for places in holders for place in places[:HOLDERS_MAX]}

    def _tokens_at(self, place: str, state: PoolState, call: Call, beginning: Beginning) -> int:
        """A replica that is full gives no credit, as when one is chosen, nor does a stale picture.
        Of a conversation whose beginning is another one, what a server outside has is a guess."""
        prefixes, chain, now_s = self._placement.prefixes, beginning.chain, self._clock()
        prompt_tokens = call.likely_prompt_tokens(state.pool.model)
        tokens = chain.tokens(prefixes.blocks_known(place, chain, now_s), prompt_tokens)
        if state.pool.is_external:
            is_same = prefixes.blocks_known(place, beginning.mark, now_s) > 0
            return tokens or (int(prompt_tokens * GUESSED_SHARE) if is_same else 0)
        is_full = self._placement.counted(place).calls >= state.pool.max_ongoing
        return 0 if state.is_stale or is_full else tokens

    def sent_outside(self, pool: Pool, beginning: Beginning) -> None:
        """A server outside has begun to answer this prompt."""
        place, until_s = outside_id(pool.name), self._clock() + pool.cache_s
        for chain in beginning.chains:
            self._placement.remember(Computed(place, chain, ROOM_TOKENS, until_s))
