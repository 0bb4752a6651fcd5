"""Permit and hold of a call in Redis: admit, renew, extend, settle, each one round trip.

Owns the calling convention of the scripts and nothing of their rules. Law: a call is admitted in
every scope or in none. Whatever is repeated, it is held once and settled once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar, cast

import msgspec
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.breaker import Breaker
from billing.limits.contract import Contract, Units, contract_of
from billing.limits.packing import (
    Arg,
    milliseconds,
    nanousd,
    pack_names,
    pack_purse,
    pack_purses,
    pack_sums,
    token_units,
)
from billing.limits.rates import never_fits, refusal, tightest
from billing.limits.scripts import Scripts
from billing.limits.state import (
    ClosedState,
    OpenState,
    ScopeState,
    decode_call,
    decode_levels,
    decode_purse,
    decode_scope,
    encode_admit,
    encode_ended,
)
from billing.limits.types import (
    Admitted,
    Dimension,
    HardBudget,
    Hold,
    HoldState,
    LimitsUnavailable,
    Lost,
    Money,
    PurseSpent,
    Refused,
    Renewed,
    RenewRefused,
    ScopeLimits,
    SettleState,
    ShardEpoch,
    Silent,
    Spent,
    purse_of,
)
from billing.types import (
    OpenedCall,
    SettledCall,
    Usage,
    UsageCheckpoint,
    UsageSource,
    decode_checkpoint,
    decode_opened,
    encode,
    utc_month,
)

Decoded = TypeVar("Decoded")

_ADMITTED: Mapping[bytes, Literal["new", "held", "settled"]] = {
    b"n": "new",
    b"h": "held",
    b"s": "settled",
}


class Holds:
    """`redis` must not decode responses. Every method may raise LimitsUnavailable. The effect is
    unknown then, and the same call is safe to repeat."""

    def __init__(
        self,
        redis: Redis,
        *,
        timeout_s: float = 1.0,
        clock_lua: str | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self._redis = redis
        self._breaker = breaker
        self._scripts = Scripts(redis, timeout_s=timeout_s, clock_lua=clock_lua)

    async def admit(
        self,
        opened: OpenedCall,
        scopes: Sequence[ScopeLimits],
        *,
        lease_s: float,
        purses: Sequence[HardBudget] = (),
    ) -> Admitted | Refused:
        """Take request rate, tokens, a concurrency lease and held money of every scope, or none.
        Take money of every purse too. Where a purse refuses, its name is the scope of the refusal.
        """
        contract = contract_of(tuple(scopes), tuple(purses))
        units = _units(opened)
        answer = never_fits(units, contract)
        if answer:
            return answer
        shard = keys.shard_of(opened.org)
        reply = await self._run(
            "admit",
            _call_keys(shard, opened.rid, contract.names)
            + [keys.meter_key(shard, name) for name in contract.meter_names],
            [
                opened.rid,
                _admit_arguments(opened, contract, units, opened.hold_nanousd, lease_s),
                contract.packed_names,
                contract.packed_meter_names,
                encode(opened),
            ],
        )
        if isinstance(reply, list):
            number, dimension, wait_us, *rest = reply
            answer = refusal(
                contract.name(number), contract.dimension(number, dimension.decode()), wait_us
            )
            if not rest:  # an unprimed shard has no levels to tell
                return answer
            levels = decode_levels(rest[0][1:])
            return replace(answer, rates=tightest(contract, levels, untaken=units))
        return Admitted(
            state=_ADMITTED[reply[:1]], rates=tightest(contract, decode_levels(reply[1:]))
        )

    async def renew(
        self,
        rid: str,
        org: str,
        *,
        lease_s: float,
        topup_nanousd: int,
        checkpoint: UsageCheckpoint,
    ) -> Renewed | RenewRefused | Lost:
        """Extend the lease, store the checkpoint, and hold `topup_nanousd` more (0: no more)."""
        shard = keys.shard_of(org)
        reply = await self._run(
            "renew",
            [
                keys.due_key(shard),
                keys.epoch_key(shard),
                keys.lapsed_key(shard),
                keys.call_key(shard, rid),
            ],
            [
                rid,
                milliseconds(lease_s),
                nanousd(topup_nanousd),
                encode(checkpoint),
                keys.key_prefix(shard),
            ],
        )
        match reply[0]:
            case b"renewed":
                return Renewed(int(reply[1]))
            case b"refused":
                dimension = Dimension(reply[2].decode())
                return RenewRefused(reply[1].decode(), dimension, int(reply[3]))
            case state:
                return Lost(settled=state == b"settled")

    async def extend(
        self, opened: OpenedCall, scopes: Sequence[ScopeLimits], *, unasked: bool = False
    ) -> Admitted | Refused | Lost:
        """Take the limits of one more model for an open hold, all of its narrow scopes or none.

        From then on they are the call's like those that it was admitted with. `unasked`: whatever
        the limits say. `settled` of Lost: or the call has as many limits as it may have.
        """
        contract = contract_of(tuple(scopes))
        units = _units(opened)
        if not unasked and (never := never_fits(units, contract)):
            return never
        shard = keys.shard_of(opened.org)
        reply = await self._run(
            "extend",
            [
                keys.call_key(shard, opened.rid),
                *(keys.meter_key(shard, name) for name in contract.meter_names),
            ],
            [opened.rid, contract.pack(units), contract.packed_meter_names, int(unasked)],
        )
        match reply:
            case [number, wait_us]:
                return refusal(contract.name(number), contract.dimension(number, ""), wait_us)
            case b"new" | b"held":
                return Admitted(_ADMITTED[reply[:1]])
            case state:
                return Lost(settled=state != b"lost")

    async def settle(
        self,
        call: SettledCall,
        *,
        refund: bool = False,
        only_if_due: bool = False,
        booked_nanousd: int = 0,
    ) -> SettleState:
        """Close the hold of a call and record how it ended.

        `refund`: nothing was dispatched, so rate and tokens come back too. `only_if_due`: leave a
        hold alone whose lease still runs (`live`). `booked_nanousd`: the amount that the ledger has
        charged for this id already. It counts only if Redis has forgotten the hold.
        """
        if refund and call.amount_nanousd:
            raise ValueError("a refunded call cannot cost anything")
        shard = keys.shard_of(call.org)
        names = (f"key:{call.key}", f"project:{call.project}", f"org:{call.org}")
        used = Usage() if refund else call.usage
        reply = await self._run(
            "settle",
            _call_keys(shard, call.rid, names),
            [
                call.rid,
                encode_ended(
                    amount_nanousd=nanousd(call.amount_nanousd),
                    input_tokens=token_units(used.prompt),
                    output_tokens=token_units(used.completion),
                    is_exact=call.source is UsageSource.EXACT,
                    is_refund=refund,
                    only_if_due=only_if_due,
                    month=utc_month(call.admitted_us),
                    booked_nanousd=nanousd(booked_nanousd),
                    ended_us=max(call.ended_us, call.admitted_us),
                ),
                pack_names(names),
                encode(call),
                *_settled_purses(call),
            ],
        )
        return SettleState(reply.decode())

    async def reannounce(
        self,
        opened: OpenedCall,
        scopes: Sequence[ScopeLimits],
        *,
        held_nanousd: int,
        lease_s: float,
        checkpoint: UsageCheckpoint | None,
        purses: Sequence[HardBudget] = (),
    ) -> bool:
        """Make a live hold again after Redis was emptied. False if Redis knows the call already."""
        shard = keys.shard_of(opened.org)
        contract = contract_of(tuple(scopes), tuple(purses))
        reply = await self._run(
            "reannounce",
            [
                keys.due_key(shard),
                keys.usage_key(shard),
                keys.scopes_key(shard),
                keys.epoch_key(shard),
                keys.call_key(shard, opened.rid),
            ],
            [
                opened.rid,
                _admit_arguments(opened, contract, _units(opened), held_nanousd, lease_s),
                contract.packed_names,
                contract.packed_meter_names,
                encode(opened),
                encode(checkpoint) if checkpoint else b"",
                keys.key_prefix(shard),
            ],
        )
        return bool(reply)

    async def _run(self, name: str, keys: Sequence[str], args: Sequence[Arg]) -> Any:
        """Run a script, unless Redis has not answered of late (NotAsked)."""
        breaker = self._breaker
        if breaker is None:
            return await self._scripts.run(name, keys, args)
        breaker.ask()
        try:
            reply = await self._scripts.run(name, keys, args)
        except Silent:
            breaker.silent()
            raise
        except LimitsUnavailable:
            breaker.failed()
            raise
        breaker.answered()
        return reply

    async def read(self, rid: str, org: str) -> Hold | None:
        holds = await self._read(keys.shard_of(org), [rid])
        return holds[0]

    async def due(self, shard: int, *, limit: int, now_ms: int | None = None) -> list[Hold]:
        """Open holds whose lease has ended by `now_ms` (default: Redis' clock), oldest first."""
        async with self._scripts.bounded():
            if now_ms is None:
                seconds, micros = await self._redis.time()
                now_ms = seconds * 1000 + micros // 1000
            rids = cast(
                list[bytes],
                await self._redis.zrangebyscore(keys.due_key(shard), 0, now_ms, 0, limit),
            )
        holds = await self._read(shard, [rid.decode() for rid in rids])
        return [hold for hold in holds if hold is not None]

    async def open_count(self, shard: int) -> int:
        async with self._scripts.bounded():
            return int(await self._redis.zcard(keys.due_key(shard)))

    async def money(self, org: str, scope: str) -> Money:
        """What one scope of an organization has held and spent, as Redis counts it."""
        shard = keys.shard_of(org)
        states = await self._states(shard, [scope])
        return Money(states[scope][0].held_nanousd, _spent(*states[scope]))

    async def purses(
        self, org: str, purses: Sequence[HardBudget], *, now_us: int
    ) -> list[tuple[int, int]]:
        """Nano-USD held and spent of each purse of an organization, as Redis counts it."""
        return await self.purses_of(keys.shard_of(org), purses, now_us=now_us)

    async def purses_of(
        self, shard: int, purses: Sequence[HardBudget], *, now_us: int
    ) -> list[tuple[int, int]]:
        """Nano-USD held and spent of each purse of a shard, as Redis counts it."""
        redis_keys = [
            keys.epoch_key(shard),
            *(keys.meter_key(shard, purse.name) for purse in purses),
        ]
        async with self._scripts.bounded():
            epoch, *states = cast(list[bytes | None], await self._redis.mget(redis_keys))
        life = (epoch or b"").decode().rpartition(":")[2]
        return [
            decode_purse(state, life, oldest_us(purse, now_us))
            for purse, state in zip(purses, states, strict=True)
        ]

    async def spent(self, shard: int) -> dict[str, Spent]:
        """What every scope of a shard has spent, as Redis counts it."""
        states = await self._states(shard, await self._scopes(shard))
        return {scope: _spent(*state) for scope, state in states.items()}

    async def held(self, shard: int) -> dict[str, int]:
        """Nano-USD that every scope of a shard holds, as Redis counts it."""
        states = await self._states(shard, await self._scopes(shard))
        return {scope: state.held_nanousd for scope, (state, _) in states.items()}

    async def begin_priming(self, shard: int, epoch: str) -> None:
        """Stop admission to a shard. `epoch` is `<run id of this Redis>:<anything>`."""
        async with self._scripts.bounded():
            await self._redis.set(keys.epoch_key(shard), _epoch_value("priming", epoch))

    async def prime(
        self,
        shard: int,
        spent: Mapping[str, Spent],
        last_stream_id: str,
        epoch: str,
        purses: Sequence[PurseSpent] = (),
    ) -> bool:
        """Open a priming shard with what the ledger has charged to each scope and purse.

        False, and nothing is written, if the stream has records after `last_stream_id`, which the
        sums lack. The same if another priming has begun. A scope that is not named has spent
        nothing. `held` is summed from the open holds in the same step.
        """
        args: list[Arg] = [epoch, last_stream_id, keys.key_prefix(shard)]
        args += [*pack_purses(purses), *pack_sums(spent)]
        names = (
            *(keys.epoch_key, keys.usage_key, keys.due_key),
            *(keys.scopes_key, keys.lapsed_key),
        )
        return bool(await self._scripts.run("prime", [name(shard) for name in names], args))

    async def last_stream_id(self, shard: int) -> str:
        """The id of the last record that was ever added to the shard's stream; `0-0` if there was
        none."""
        async with self._scripts.bounded():
            if not await self._redis.exists(keys.usage_key(shard)):
                return "0-0"
            info = await self._redis.xinfo_stream(keys.usage_key(shard))
            last_id: bytes = info["last-generated-id"]
            return last_id.decode()

    async def shard_epochs(self) -> dict[int, ShardEpoch]:
        async with self._scripts.bounded(), self._redis.pipeline(transaction=False) as pipe:
            for shard in range(keys.SHARDS):
                pipe.get(keys.epoch_key(shard))
            values = await pipe.execute()
        return {shard: _epoch(value) for shard, value in enumerate(values)}

    async def prepare(self) -> None:
        """Load the scripts before the first call needs them."""
        await self._scripts.prepare()

    async def run_id(self) -> str:
        """The Redis process that answers now. Another process means that shards must be primed."""
        async with self._scripts.bounded():
            return await self._scripts.read_run_id()

    async def _read(self, shard: int, rids: Sequence[str]) -> list[Hold | None]:
        if not rids:
            return []
        async with self._scripts.bounded():
            values = cast(
                list[bytes | None],
                await self._redis.mget([keys.call_key(shard, rid) for rid in rids]),
            )
        return [_hold(rid, data) for rid, data in zip(rids, values, strict=True)]

    async def _scopes(self, shard: int) -> list[str]:
        async with self._scripts.bounded():
            members = cast(set[bytes], await self._redis.smembers(keys.scopes_key(shard)))
        return [scope.decode() for scope in members]

    async def _states(
        self, shard: int, scopes: Sequence[str]
    ) -> dict[str, tuple[ScopeState, Mapping[bytes, bytes]]]:
        """The state of each scope and its earlier months."""
        async with self._scripts.bounded(), self._redis.pipeline(transaction=True) as pipe:
            for scope in scopes:
                pipe.get(keys.scope_key(shard, scope))
                pipe.hgetall(keys.past_key(shard, scope))
            values = await pipe.execute()
        pairs = zip(scopes, values[::2], values[1::2], strict=True)
        return {scope: (decode_scope(data), past) for scope, data, past in pairs}


def _admit_arguments(
    opened: OpenedCall, contract: Contract, units: Units, hold_nanousd: int, lease_s: float
) -> bytes:
    """The arguments of a call for the scripts, with the limits that it has to fit in."""
    return encode_admit(
        input_tokens=token_units(units.input_tokens),
        output_tokens=token_units(units.output_tokens),
        hold_nanousd=nanousd(hold_nanousd),
        lease_ms=milliseconds(lease_s),
        month=opened.month,
        meters=len(contract.meter_names),
    ) + contract.pack(units)


def _settled_purses(call: SettledCall) -> tuple[bytes, str] | tuple[()]:
    """The purses of a call whose hold Redis has lost. Their amounts are not checked any more."""
    hard = [purse_of(share, 0) for share in call.budgets if share.is_hard]
    if not hard:
        return ()
    return b"".join(map(pack_purse, hard)), pack_names(tuple(purse.name for purse in hard))


def oldest_us(purse: HardBudget, now_us: int) -> int:
    """The beginning of the first part of a rolling span that counts now."""
    if not purse.width_us:
        return 0
    from_us = now_us - purse.lasts_us
    return from_us - from_us % purse.width_us


def _units(opened: OpenedCall) -> Units:
    """The units that a call declares at its start. Settling corrects them by what was used."""
    prompt = min(opened.prompt_tokens, opened.tokens_estimate)
    return Units(prompt, opened.tokens_estimate - prompt)


def _call_keys(shard: int, rid: str, scopes: tuple[str, ...]) -> list[str]:
    return [
        *keys.shard_keys(shard),
        keys.call_key(shard, rid),
        *keys.scope_keys(shard, scopes),
    ]


def _spent(state: ScopeState, past: Mapping[bytes, bytes]) -> Spent:
    months = {month.decode(): int(amount) for month, amount in past.items()}
    if state.month:
        months[str(state.month)] = state.month_nanousd
    return Spent(state.spent_nanousd, months)


def _hold(rid: str, data: bytes | None) -> Hold | None:
    match data and decode_call(data):
        case OpenState() as call:
            return Hold(
                rid=rid,
                state=HoldState.HELD,
                held_nanousd=call.held_nanousd,
                opened=_readable(decode_opened, call.opened),
                checkpoint=_readable(decode_checkpoint, call.checkpoint),
                due_ms=call.due_ms,
            )
        case ClosedState() as call:
            state = HoldState.SETTLED if call.is_exact else HoldState.ESTIMATED
            return Hold(rid=rid, state=state, amount_nanousd=call.amount_nanousd)
        case _:
            return None


def _readable(decode: Callable[[bytes], Decoded], payload: bytes | None) -> Decoded | None:
    """A payload as a value. None for a shape that is not known here, for example of a newer
    version."""
    try:
        return decode(payload) if payload else None
    except msgspec.DecodeError:
        return None


def _epoch_value(state: str, epoch: str) -> str:
    return f"{keys.LAYOUT}:{state}:{epoch}"


def _epoch(value: bytes | None) -> ShardEpoch:
    """The epoch of a shard. A shard that was opened for another layout counts as new."""
    layout, _, rest = (value or b"").decode().partition(":")
    if layout != str(keys.LAYOUT):
        return ShardEpoch("unprimed", None)
    state, _, epoch = rest.partition(":")
    return ShardEpoch(cast(Literal["open", "priming"], state), epoch)
