"""Which beginnings of prompts each replica has computed lately: a bounded, least recently used list
of blocks a replica. It is what a gateway expects of caches that it cannot see. No input or output.
"""

from collections import OrderedDict
from collections.abc import Collection

from routing.replicas.blocks import BLOCK_TOKENS, Chain

BLOCKS_DEFAULT = 4096
"""Of a replica that does not say how large its cache is: 262,144 tokens."""
BLOCKS_MAX_EACH = 16_384
"""Of any replica: some 2 MiB of a gateway's memory."""


class KnownPrefixes:
    def __init__(self) -> None:
        self._of: dict[str, OrderedDict[bytes, None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def blocks_known(self, replica_id: str, chain: Chain) -> int:
        """How many first blocks of a prompt a replica is expected to have."""
        blocks = self._of.get(replica_id)
        if blocks is None:
            return 0
        count = 0
        for block in chain.blocks:
            if block not in blocks:
                break
            count += 1
        return count

    def remember(self, replica_id: str, chain: Chain, cache_tokens: int = 0) -> None:
        """A replica has computed this prompt. `cache_tokens` is the room for prefixes there, 0
        where it is not known. Of a chain that is longer than the room its beginning is kept."""
        if not chain.blocks:
            return
        blocks = self._of.setdefault(replica_id, OrderedDict())
        for block in reversed(chain.blocks):  # a start is worth most: nothing matches without it
            blocks[block] = None
            blocks.move_to_end(block)
        room = min(cache_tokens // BLOCK_TOKENS or BLOCKS_DEFAULT, BLOCKS_MAX_EACH)
        while len(blocks) > room:
            blocks.popitem(last=False)

    def keep_only(self, replica_ids: Collection[str]) -> None:
        """Forget replicas that are gone."""
        for replica_id in self._of.keys() - set(replica_ids):
            del self._of[replica_id]
