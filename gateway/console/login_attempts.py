"""A bound on guessing the admin key: a few tries per address, and one more every few seconds.

A try counts before its key is looked at, and the right key forgives all: many tries at once gain
nothing. Of the addresses only the latest ADDRESSES_MAX are remembered.
"""

from collections import OrderedDict

TRIES_MAX = 5
TRY_REGAINED_S = 12.0
ADDRESSES_MAX = 1024


class LoginAttempts:
    def __init__(self) -> None:
        self._free_at_s: OrderedDict[str, float] = OrderedDict()

    def take(self, address: str, now_s: float) -> float:
        """Count one try; 0 if it may be made, else the seconds to wait for the next."""
        free_at_s = max(self._free_at_s.get(address, now_s), now_s) + TRY_REGAINED_S
        wait_s = free_at_s - now_s - TRIES_MAX * TRY_REGAINED_S
        if wait_s > 0:
            return wait_s
        self._free_at_s[address] = free_at_s
        self._free_at_s.move_to_end(address)
        if len(self._free_at_s) > ADDRESSES_MAX:
            self._free_at_s.popitem(last=False)
        return 0.0

    def forgive(self, address: str) -> None:
        self._free_at_s.pop(address, None)
