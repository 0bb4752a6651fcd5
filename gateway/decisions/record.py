"""What a decision was made from, in few bytes, so that it can be made again when somebody asks.

Owns the codec between the values of routing and `billing.decisions.batch`. The call's own facts are
its record. The pools, their states and the models are parts that many records share. Candidates,
clauses and terms are not kept: `routing.decide` is pure and gives them again. Guards the laws that
decoding gives what was encoded, and that a replay equals its record.
"""

from collections.abc import Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any, Final, Literal, NamedTuple

import msgspec

from billing.decisions.batch import DecisionBytes
from gateway.decisions.narrowing import LeftOut
from routing.candidates import Candidates
from routing.policy.attributes import ATTRIBUTES, Attributes
from routing.policy.narrow import Preferences
from routing.types import Call, Decision, FleetSnapshot, Model, PoolState, Refusal

DIGEST_BYTES: Final = 8
PARTS_MAX: Final = 10_000


class DecisionOutcome(NamedTuple):
    """What was decided: the pool that comes first, or the kind of the refusal. `digest` is over
    every candidate with its figures."""

    rule: str
    policy_revision: int
    pool: str | None
    refused: str | None
    digest: bytes


class DecisionRecord(NamedTuple):
    """The arguments of one decision, and what came of it."""

    call: Call
    attributes: Attributes
    snapshot: FleetSnapshot
    seed: int
    outcome: DecisionOutcome
    wish: Preferences = Preferences()
    """The `provider` object of the call."""
    left_out: LeftOut = ()
    error: str | None = None
    """Code of the error that the call was refused with after it was decided."""


class UnreadableRecord(ValueError):
    """These bytes are no record of a decision."""


def outcome_of(decided: Decision | Refusal) -> DecisionOutcome:
    matched, head = decided.matched, list[object]()
    pool = refused = None
    if isinstance(decided, Refusal):
        head = [decided.kind, decided.message, decided.retry_after_s, decided.soonest_pool]
        refused = decided.kind.value
    else:
        pool = decided.chosen.pool
    candidates = decided.candidates
    rows = candidates.compared() if isinstance(candidates, Candidates) else candidates
    written = _ENCODER.encode([*head, *rows])
    digest = blake2b(written, digest_size=DIGEST_BYTES).digest()
    return DecisionOutcome(matched.rule, matched.policy_revision, pool, refused, digest)


class PartsEncoder:
    """Encodes the parts of records once for each value, as long as the encoder lives."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[object, bytes]] = {}
        self._of_fleet: dict[tuple[int, ...], tuple[FleetSnapshot, Sequence[bytes]]] = {}

    def encode(self, record: DecisionRecord) -> DecisionBytes:
        at_us, facts = round(record.snapshot.at_s * 1e6), _ENCODER.encode(_facts(record))
        return DecisionBytes(record.call.request_id, at_us, facts, self._parts(record.snapshot))

    def _parts(self, snapshot: FleetSnapshot) -> Sequence[bytes]:
        key = (id(snapshot.models), *map(id, snapshot.pools))
        if key not in self._of_fleet:
            parts = [self._part(snapshot.models, _ENCODER.encode)]
            for state in snapshot.pools:
                parts += self._part(state.pool, _ENCODER.encode), self._part(state, _state_bytes)
            self._of_fleet[key] = (snapshot, parts)  # the values live on, and so do their ids
        return self._of_fleet[key][1]

    def _part(self, value: Any, write: Any) -> bytes:
        known = self._written.get(id(value))
        if known is None:
            known = self._written[id(value)] = (value, write(value))
        return known[1]


class PartsDecoder:
    """Decodes records, and each part once, as long as few parts come: records of one time share
    them."""

    def __init__(self) -> None:
        self._models: dict[bytes, dict[str, Model]] = {}
        self._states: dict[tuple[bytes, bytes], PoolState] = {}

    def decode(self, record: DecisionBytes) -> DecisionRecord:
        """Raises UnreadableRecord."""
        if len(self._states) > PARTS_MAX:
            self._models, self._states = {}, {}
        try:
            return self._decoded(record)
        except (msgspec.MsgspecError, ValueError) as error:
            raise UnreadableRecord(f"the record of {record.rid}: {error}") from error

    def _decoded(self, record: DecisionBytes) -> DecisionRecord:
        facts = _FACTS.decode(record.facts)
        call = facts.call._replace(request_id=record.rid)
        return DecisionRecord(
            call=call,
            attributes=_plain(call) | facts.attributes,
            snapshot=self._snapshot(facts, record.parts),
            seed=facts.seed,
            outcome=facts.outcome,
            wish=facts.wish or Preferences(),
            left_out=facts.left_out,
            error=facts.error,
        )

    def _snapshot(self, facts: "_Facts", parts: Sequence[bytes]) -> FleetSnapshot:
        models, *of_pools = parts or [b""]
        if models not in self._models:
            self._models[models] = _MODELS.decode(models)
        pairs = zip(of_pools[::2], of_pools[1::2], strict=True)
        pools = tuple([self._state(pair) for pair in pairs])
        counts = zip(pools, facts.in_flight, strict=True)
        in_flight = {state.pool.name: count for state, count in counts if count}
        return FleetSnapshot(facts.at_s, self._models[models], pools, in_flight)

    def _state(self, pair: tuple[bytes, bytes]) -> PoolState:
        if pair not in self._states:
            pool, state = map(msgspec.msgpack.decode, pair)
            self._states[pair] = msgspec.convert(state | {"pool": pool}, PoolState)
        return self._states[pair]


class _Facts(msgspec.Struct, frozen=True, array_like=True):
    """A field that is added stands last and has a default, in `Call` too: older records have
    none."""

    v: Literal[1]
    at_s: float
    seed: int
    outcome: DecisionOutcome
    call: Call
    """Without its id, which the entry of the batch has."""
    attributes: dict[str, str | int | float | bool | dict[str, str]]
    """Those that the call itself does not tell."""
    in_flight: tuple[int, ...]
    """For each pool of the snapshot, in its order."""
    left_out: LeftOut = ()
    wish: Preferences | None = None
    error: str | None = None


def _facts(record: DecisionRecord) -> _Facts:
    plain, snapshot = _plain(record.call), record.snapshot
    return _Facts(
        v=1,
        at_s=snapshot.at_s,
        seed=record.seed,
        outcome=record.outcome,
        call=record.call._replace(request_id=""),
        attributes={n: value for n, value in record.attributes.items() if plain[n] != value},  # type: ignore[misc]
        in_flight=tuple([snapshot.in_flight.get(each.pool.name, 0) for each in snapshot.pools]),
        left_out=record.left_out,
        wish=None if record.wish == Preferences() else record.wish,
        error=record.error,
    )


def _plain(call: Call) -> dict[str, Any]:
    """The attributes that follow from the call, and the defaults of the others."""
    return {attribute.name: attribute.default for attribute in ATTRIBUTES} | {
        "req.model": call.model_requested,
        "req.service_tier": call.tier.value,
        "req.max_tokens": call.output_tokens_max,
        "req.stream": call.stream,
        "tenant.organization": call.organization,
        "tenant.project": call.project,
        "tenant.key": call.key,
        "tenant.tier": call.tenant_tier,
        "model.name": call.model_requested,
    }


_OF_STATE: Final = tuple(each.name for each in fields(PoolState) if each.name != "pool")


def _state_bytes(state: PoolState) -> bytes:
    return _ENCODER.encode({name: getattr(state, name) for name in _OF_STATE})


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_FACTS = msgspec.msgpack.Decoder(_Facts)
_MODELS = msgspec.msgpack.Decoder(dict[str, Model])
