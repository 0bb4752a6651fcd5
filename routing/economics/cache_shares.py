"""What share of prompts servers outside have cached, learned from what they report, by pool.

Of the tokens that a gateway knows to have been sent there before, a part is still cached (`known`);
of the others some are too (`unknown`): other gateways, and prompts of which nobody kept a trace.
Bounded: POOLS_MAX pools, of which the one used longest ago goes first.
"""

from collections import OrderedDict
from typing import Final

POOLS_MAX: Final = 1024
FORGETTING: Final = 0.99
"""The weight of an answer when the next one comes."""
PRIOR_TOKENS: Final = 1000.0
"""What the prior weighs: all that is known is cached, and nothing else."""


class _Sums:
    __slots__ = ("cached", "known", "known_cached", "other")

    def __init__(self) -> None:
        self.known = self.known_cached = self.other = self.cached = 0.0


class CacheShares:
    def __init__(self) -> None:
        self._of: OrderedDict[str, _Sums] = OrderedDict()

    def observe(
        self, pool: str, prompt_tokens: float, cached_tokens: float, known_tokens: float
    ) -> None:
        """Of one answer, what its server reports. `known_tokens` of its prompt were known to have
        been sent there before."""
        sums = self._of.setdefault(pool, _Sums())
        self._of.move_to_end(pool)
        known = min(known_tokens, prompt_tokens)
        known_cached = min(cached_tokens, known)
        new = (known, known_cached, prompt_tokens - known, cached_tokens - known_cached)
        for name, amount in zip(("known", "known_cached", "other", "cached"), new, strict=True):
            setattr(sums, name, FORGETTING * getattr(sums, name) + amount)
        while len(self._of) > POOLS_MAX:
            self._of.popitem(last=False)

    def known(self, pool: str) -> float:
        """Of the tokens that are known to have been sent there: the share that is still cached."""
        sums = self._of.get(pool)
        if sums is None:
            return 1.0
        return (PRIOR_TOKENS + sums.known_cached) / (PRIOR_TOKENS + sums.known)

    def unknown(self, pool: str) -> float:
        """Of all other tokens: the share that is cached there all the same."""
        sums = self._of.get(pool)
        return 0.0 if sums is None else sums.cached / (PRIOR_TOKENS + sums.other)
