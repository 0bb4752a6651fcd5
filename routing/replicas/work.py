"""What is outstanding at replicas, in calls and tokens: what was sent there and has not come back.

Guards the law that counters are the sums of what is open, so they are zero once all of it has
ended, in whatever order and however often an end is told. No input or output.
"""

from collections.abc import Mapping
from typing import NamedTuple

from routing.types import Replica


class Work(NamedTuple):
    """`prefill_tokens`: of prompts, what is not computed yet. `context_tokens`: what the calls hold
    of keys and values. `output_tokens`: what is still expected of their answers."""

    calls: int = 0
    prefill_tokens: int = 0
    context_tokens: int = 0
    output_tokens: int = 0

    def beside(self, other: "Work") -> "Work":
        """Both together."""
        return Work(
            self.calls + other.calls,
            self.prefill_tokens + other.prefill_tokens,
            self.context_tokens + other.context_tokens,
            self.output_tokens + other.output_tokens,
        )

    def at_least(self, other: "Work") -> "Work":
        """Of each count the larger one."""
        return Work(*map(max, self, other))


NO_WORK = Work()


def reconciled(replica: Replica, work: Work, output_tokens_each: int) -> Work:
    """What gateways have counted there, or what the replica says itself, whichever is more: it is
    behind by the time of a report, and gateways do not know of each other's newest calls. Where it
    has no gauges, each of its calls is taken to have `output_tokens_each` before it."""
    calls = replica.running + replica.queued
    gauges = replica.gauges
    if gauges is None:
        return work.at_least(Work(calls, 0, 0, calls * output_tokens_each))
    return work.at_least(
        Work(calls, gauges.prefill_tokens_left, gauges.kv_tokens_used, gauges.output_tokens_left)
    )


class OpenPiece:
    """The work of one attempt, counted in `Outstanding` from `begin` to `end`."""

    __slots__ = ("_expected_tokens", "_of", "_prompt_tokens", "_work", "replica_id")

    def __init__(self, of: "Outstanding", replica_id: str, work: Work) -> None:
        self._of = of
        self.replica_id = replica_id
        self._prompt_tokens = work.context_tokens
        self._expected_tokens = work.output_tokens
        self._work: Work | None = work

    def computed(self) -> None:
        """Its first token is here, so its prompt is computed."""
        if self._work is not None and self._work.prefill_tokens:
            self._become(self._work._replace(prefill_tokens=0))

    def grew(self, output_tokens: int) -> None:
        """It has so many tokens of output by now. One that is longer than expected has one more
        before it."""
        if self._work is not None:
            rest = max(1, self._expected_tokens - output_tokens)
            context = self._prompt_tokens + output_tokens
            self._become(self._work._replace(context_tokens=context, output_tokens=rest))

    def end(self) -> None:
        """Once or more often."""
        if self._work is not None:
            self._of.change(self.replica_id, self._work, NO_WORK)
            self._work = None

    def _become(self, work: Work) -> None:
        assert self._work is not None, "an open piece"
        self._of.change(self.replica_id, self._work, work)
        self._work = work


class Outstanding:
    """The sums of open work by replica. A replica without open work is not in it."""

    def __init__(self) -> None:
        self._of: dict[str, Work] = {}

    def begin(self, replica_id: str, work: Work) -> OpenPiece:
        """Count an attempt, which is `work` of one call, until it ends."""
        self.change(replica_id, NO_WORK, work)
        return OpenPiece(self, replica_id, work)

    def at(self, replica_id: str) -> Work:
        return self._of.get(replica_id, NO_WORK)

    @property
    def by_replica(self) -> Mapping[str, Work]:
        return self._of

    def change(self, replica_id: str, before: Work, after: Work) -> None:
        """Put one piece's work in the place of what it was."""
        sums = Work(
            *(
                total - was + now
                for total, was, now in zip(self.at(replica_id), before, after, strict=True)
            )
        )
        if sums.calls:
            self._of[replica_id] = sums
        else:
            assert sums == NO_WORK, "no calls, no work"
            self._of.pop(replica_id, None)
