"""How fast the admin key may be guessed: wrong keys of an address are answered one after another.

An answer waits its turn; where too many wait, the address is told to come again and its keys are
not looked at, or it could tell the right one by its answer. Who has shown the right key of late is
looked at all the same, so that guesses from its own address (all have one, behind a proxy) do not
keep it out.
"""

from collections import OrderedDict

EVERY_S = 0.1
QUEUE_S_MAX = 5.0
WELCOME_S = 3600.0
ADDRESSES_MAX = 4096
"""Those remembered are the latest."""


class WrongKeys:
    def __init__(self) -> None:
        self._free_s: OrderedDict[str, float] = OrderedDict()
        self._welcome_s: OrderedDict[str, float] = OrderedDict()

    def full_for_s(self, address: str, now_s: float) -> float:
        """0 where a key of that address may be looked at; else when to come again."""
        if self._welcome_s.get(address, now_s) > now_s:
            return 0.0
        return max(0.0, self._free_s.get(address, now_s) - now_s - QUEUE_S_MAX + EVERY_S)

    def queue(self, address: str, now_s: float) -> float:
        """A key was wrong; the seconds until its answer may leave."""
        begins_s = max(self._free_s.get(address, now_s), now_s)
        free_s = min(begins_s + EVERY_S, now_s + QUEUE_S_MAX + EVERY_S)
        _remember(self._free_s, address, free_s)
        return free_s - now_s

    def welcome(self, address: str, now_s: float) -> None:
        """A key was right."""
        _remember(self._welcome_s, address, now_s + WELCOME_S)


def _remember(instants_s: OrderedDict[str, float], address: str, instant_s: float) -> None:
    instants_s[address] = instant_s
    instants_s.move_to_end(address)
    if len(instants_s) > ADDRESSES_MAX:
        instants_s.popitem(last=False)
