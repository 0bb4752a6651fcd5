"""Inputs that wait, and which of them are computed together. Pure; knows no model. Guards two laws.
A batch, padding included, stays within its tokens (one input always goes). Calls take turns at
choosing it, so that a small call never waits for all of a large one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Call = TypeVar("Call")


@dataclass(frozen=True, slots=True)
class WaitingInput(Generic[Call]):
    call: Call
    index: int
    token_ids: tuple[int, ...]

    @property
    def tokens(self) -> int:
        return len(self.token_ids)


class InputQueue(Generic[Call]):
    """Calls are told apart by `Call`, of any type."""

    def __init__(self, *, batch_tokens_max: int) -> None:
        self._batch_tokens_max = batch_tokens_max
        self._by_length: list[WaitingInput[Call]] = []  # shortest first
        self._counts: OrderedDict[Call, int] = OrderedDict()  # whose turn it is first

    def __len__(self) -> int:
        return len(self._by_length)

    def add(self, call: Call, inputs: Sequence[tuple[int, ...]]) -> None:
        self._counts[call] = len(inputs)
        self._by_length += [WaitingInput(call, n, ids) for n, ids in enumerate(inputs)]
        self._by_length.sort(key=lambda waiting: waiting.tokens)

    def remove(self, call: Call) -> None:
        """Forget the inputs of a call that still wait."""
        if self._counts.pop(call, None) is not None:
            self._by_length = [each for each in self._by_length if each.call != call]

    def take(self) -> list[WaitingInput[Call]]:
        """Take the longest input of the call whose turn it is, and as many of the next shorter
        inputs of any call as fit beside it. Inputs of similar length waste least on padding."""
        if not self._by_length:
            return []
        call = next(iter(self._counts))
        self._counts.move_to_end(call)
        last = next(place for place in self._places_down() if self._by_length[place].call == call)
        count = max(1, self._batch_tokens_max // self._by_length[last].tokens)
        first = max(0, last + 1 - count)
        batch = self._by_length[first : last + 1]
        del self._by_length[first : last + 1]
        for each in batch:
            self._counts[each.call] -= 1
            if not self._counts[each.call]:
                del self._counts[each.call]
        return batch

    def _places_down(self) -> Iterator[int]:
        return reversed(range(len(self._by_length)))
