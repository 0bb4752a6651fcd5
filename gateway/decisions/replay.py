"""Makes recorded decisions again, and says where another one comes of it. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from billing.decisions.batch import DecisionBytes
from gateway.decisions.explained import made_again
from gateway.decisions.record import (
    DecisionOutcome,
    DecisionRecord,
    PartsDecoder,
    UnreadableRecord,
    outcome_of,
)
from routing.policy.rules import RoutingPolicy

PolicyOf = Callable[[int], RoutingPolicy | None]
ROUTE = ("rule", "pool", "refused")
"""What another policy is compared by: figures of its candidates say nothing."""


class Difference(NamedTuple):
    id: str
    field: str
    was: str | int | None
    now: str | int | None


def replayed(
    records: Iterable[DecisionBytes], policy_of: PolicyOf, *, same_policy: bool = True
) -> Iterator[list[Difference]]:
    """For each record its differences; none where all is equal. With `same_policy` every figure of
    every candidate counts, bit for bit, and else the route alone."""
    decoder = PartsDecoder()
    for each in records:
        try:
            record = decoder.decode(each)
        except UnreadableRecord as broken:
            yield [Difference(each.rid, "record", str(broken), None)]
            continue
        yield _differences(record, policy_of(record.outcome.policy_revision), same_policy)


def _differences(
    record: DecisionRecord, policy: RoutingPolicy | None, same_policy: bool
) -> list[Difference]:
    rid, before = record.call.request_id, record.outcome
    if policy is None:
        return [Difference(rid, "policy_revision", before.policy_revision, None)]
    after = outcome_of(made_again(record, policy))
    fields = DecisionOutcome._fields if same_policy else ROUTE
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in fields]
    return [
        Difference(rid, _NAMES.get(name, name), _plain(was), _plain(now))
        for name, was, now in pairs
        if was != now
    ]


_NAMES = {"digest": "candidates"}


def _plain(value: bytes | str | int | None) -> str | int | None:
    return value.hex() if isinstance(value, bytes) else value
