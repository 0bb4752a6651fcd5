"""What has arrived of an answer: the token ids of each frame, by choice. With them another replica
goes on as if the answer had never been cut (`sluice.resume`, docs/design.md). Ids stay the bytes
that came: nobody reads them here. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec

from billing.types import Usage
from gateway.call.frame import NO_IDS, Frame
from gateway.call.meter import Meter

ARRIVED_BYTES_MAX = 1024 * 1024
"""Of one call. A longer answer is not gone on with: no model has such a context today."""


GATHERED_AT = 32
"""New frames, which hold all that they say."""


class Arrived:
    """Of `choices` answers. Frames that were counted and sent on are appended to `new`, as this
    costs each chunk of each stream the least, and gathered now and then."""

    def __init__(self, choices: int) -> None:
        self.new: list[Frame] = []
        self._ids = [bytearray() for _ in range(choices)]
        self._bytes_max = ARRIVED_BYTES_MAX // choices
        self._is_whole = True

    def gather(self) -> None:
        """Keep the ids of new frames."""
        if len(self._ids) > 1 or not self._gather_at_once():
            for frame in self.new:
                self._keep(frame)
        self.new.clear()

    def _gather_at_once(self) -> bool:
        """Of one choice, as most calls are: half the work. False where a frame has no ids."""
        ids = b",".join([frame.token_ids for frame in self.new])
        if b"[" not in ids[:1] or b",," in ids or ids[-1:] == b",":
            return False
        if len(self._ids[0]) < self._bytes_max:
            self._ids[0] += ids + b","
        else:
            self._is_whole = False
        return True

    def _keep(self, frame: Frame) -> None:
        """One of an own worker is about one choice."""
        choices = frame.choices
        if frame.token_ids is NO_IDS or len(choices) != 1:
            self._is_whole = self._is_whole and not frame.says_something
            return
        ids = self._ids[choices[0].index]
        if len(ids) < self._bytes_max:
            ids += frame.token_ids
            ids += b","
        else:
            self._is_whole = False

    @property
    def exact(self) -> bool:
        """Whether tokens have come, and all of them with their ids."""
        return self._is_whole and any(self._ids)

    def resume(self, meter: Meter) -> dict[str, Any]:
        """What a worker is told, beside the same body. `meter` is the call's."""
        usage = meter.usage if meter.usage.output else _NOTHING
        choices = [
            {"frames": _listed(ids), "finished": meter.has_finished(index)}
            for index, ids in enumerate(self._ids)
        ]
        return {"choices": choices, "input": usage.input, "cached_input": usage.cached_input}


def _listed(ids: bytearray) -> msgspec.Raw:
    return msgspec.Raw(b"[%b]" % bytes(ids[:-1]))


def finished(resume: Mapping[str, Any]) -> frozenset[int]:
    """The choices that have nothing more to say."""
    return frozenset(n for n, choice in enumerate(resume["choices"]) if choice["finished"])


_NOTHING = Usage()
