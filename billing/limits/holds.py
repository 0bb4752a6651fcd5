"""Permit and hold of a call in Redis: admit, renew, settle, each one round trip.

Owns the calling convention of the scripts and nothing of their rules. Law: a call is admitted in
every scope or in none, and whatever is repeated, it is held once and settled once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar, cast

import msgspec
from redis.asyncio import Redis

from billing.limits import keys
from billing.limits.packing import (
    Arg,
    key_prefix,
    limit_args,
    milliseconds,
    nanousd,
    no_marks,
    pack_scopes,
    token_units,
)
from billing.limits.rates import never_fits, refusal, tightest_requests, tightest_tokens
from billing.limits.scripts import Scripts
from billing.limits.types import (
    Admitted,
    Dimension,
    Hold,
    HoldState,
    Lost,
    Money,
    Refused,
    Renewed,
    RenewRefused,
    ScopeLimits,
    SettleState,
    ShardEpoch,
    Spent,
)
from billing.types import (
    OpenedCall,
    SettledCall,
    UsageCheckpoint,
    UsageSource,
    decode_checkpoint,
    decode_opened,
    encode,
    utc_month,
)

Decoded = TypeVar("Decoded")

EXACT_REMEMBERED_S = 3600
"""Long enough for repeats that do not ask SQL first; about 200 bytes a call stay in Redis."""
ESTIMATED_REMEMBERED_S = 8 * 24 * 3600
"""Longer than spool segments are kept, so that a replayed exact record finds what it corrects."""


class Holds:
    """`redis` must not decode responses. Every method may raise LimitsUnavailable; after that the
    effect is unknown, and repeating the same call is safe."""

    def __init__(
        self, redis: Redis, *, timeout_s: float = 1.0, clock_lua: str | None = None
    ) -> None:
        self._redis = redis
        self._scripts = Scripts(redis, timeout_s=timeout_s, clock_lua=clock_lua)

    async def admit(
        self, opened: OpenedCall, scopes: Sequence[ScopeLimits], *, lease_s: float
    ) -> Admitted | Refused:
        """Take request rate, tokens, a concurrency lease and held money of every scope, or none."""
        refused = never_fits(opened.tokens_estimate, scopes)
        if refused:
            return refused
        shard = keys.shard_of(opened.org)
        scope_keys = [
            name(shard, limits.scope)
            for limits in scopes
            for name in (keys.scope_key, keys.concurrency_key)
        ]
        args: list[Arg] = [
            opened.rid,
            opened.tokens_estimate,
            nanousd(opened.hold_nanousd),
            milliseconds(lease_s),
            keys.month_field(opened.month),
            encode(opened),
            pack_scopes(scopes, opened.month),
        ]
        for limits in scopes:
            args += limit_args(limits, opened.tokens_estimate, opened.month)
        reply = await self._scripts.run("admit", _call_keys(shard, opened.rid) + scope_keys, args)
        if reply[0] == b"refused":
            return refusal(scopes[reply[1] - 1].scope, Dimension(reply[2].decode()), reply[3])
        return Admitted(
            state=reply[0].decode(),
            requests=tightest_requests(scopes, reply[1::2]),
            tokens=tightest_tokens(scopes, reply[2::2]),
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
        reply = await self._scripts.run(
            "renew",
            [
                keys.hold_key(shard, rid),
                keys.done_key(shard, rid),
                keys.due_key(shard),
                keys.epoch_key(shard),
            ],
            [
                rid,
                milliseconds(lease_s),
                nanousd(topup_nanousd),
                encode(checkpoint),
                key_prefix(shard),
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
        hold alone whose lease still runs (`live`). `booked_nanousd`: what the ledger has charged
        for this id already; counts only if Redis has forgotten the hold.
        """
        if refund and call.amount_nanousd:
            raise ValueError("a refunded call cannot cost anything")
        shard = keys.shard_of(call.org)
        month = utc_month(call.admitted_us)
        scopes = [
            ScopeLimits(scope=scope)
            for scope in (f"key:{call.key}", f"project:{call.project}", f"org:{call.org}")
        ]
        reply = await self._scripts.run(
            "settle",
            _call_keys(shard, call.rid),
            [
                call.rid,
                nanousd(call.amount_nanousd),
                0 if refund else token_units(call.usage.total),
                "x" if call.source is UsageSource.EXACT else "e",
                int(refund),
                int(only_if_due),
                encode(call),
                key_prefix(shard),
                keys.month_field(month),
                pack_scopes(scopes, month),
                nanousd(booked_nanousd),
                EXACT_REMEMBERED_S,
                ESTIMATED_REMEMBERED_S,
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
    ) -> bool:
        """Re-create a live hold after Redis was wiped; False if Redis knows the call already."""
        shard = keys.shard_of(opened.org)
        reply = await self._scripts.run(
            "reannounce",
            _call_keys(shard, opened.rid),
            [
                opened.rid,
                opened.tokens_estimate,
                nanousd(held_nanousd),
                milliseconds(lease_s),
                keys.month_field(opened.month),
                encode(opened),
                encode(checkpoint) if checkpoint else b"",
                pack_scopes(scopes, opened.month),
                no_marks(scopes),
                key_prefix(shard),
            ],
        )
        return bool(reply)

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
        async with self._scripts.bounded():
            fields = await self._redis.hgetall(keys.scope_key(keys.shard_of(org), scope))
        amounts = {cast(bytes, name).decode(): int(amount) for name, amount in fields.items()}
        months = {name[1:]: amount for name, amount in amounts.items() if name.startswith("m")}
        return Money(amounts.get("held", 0), Spent(amounts.get(keys.TOTAL_FIELD, 0), months))

    async def begin_priming(self, shard: int, epoch: str) -> None:
        """Stop admission to a shard. `epoch` is `<run id of this Redis>:<anything>`."""
        async with self._scripts.bounded():
            await self._redis.set(keys.epoch_key(shard), f"priming:{epoch}")

    async def prime(
        self, shard: int, spent: Mapping[str, Spent], last_stream_id: str, epoch: str
    ) -> bool:
        """Open a priming shard with what the ledger has charged to each scope.

        False, and nothing written, if the stream has records after `last_stream_id` (which the
        sums therefore lack) or another priming has begun. Scopes not named have spent nothing;
        `held` is summed from the open holds in the same step.
        """
        args: list[Arg] = [epoch, last_stream_id, key_prefix(shard)]
        for scope, sums in spent.items():
            args += [scope, keys.TOTAL_FIELD, sums.total_nanousd]
            for month, amount in sums.months.items():
                args += [scope, keys.month_field(month), amount]
        names = (keys.epoch_key, keys.usage_key, keys.due_key, keys.scopes_key)
        return bool(await self._scripts.run("prime", [name(shard) for name in names], args))

    async def last_stream_id(self, shard: int) -> str:
        """The id of the last record ever added to the shard's stream; `0-0` if there was none."""
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

    async def run_id(self) -> str:
        """The Redis process that answers now; another one means that shards must be primed."""
        async with self._scripts.bounded():
            return await self._scripts.read_run_id()

    async def _read(self, shard: int, rids: Sequence[str]) -> list[Hold | None]:
        async with self._scripts.bounded(), self._redis.pipeline(transaction=True) as pipe:
            for rid in rids:
                pipe.hmget(keys.hold_key(shard, rid), "held", "o", "c")
                pipe.get(keys.done_key(shard, rid))
                pipe.zscore(keys.due_key(shard), rid)
            replies = await pipe.execute()
        rows = zip(rids, replies[::3], replies[1::3], replies[2::3], strict=True)
        return [_hold(rid, fields, done, due_ms) for rid, fields, done, due_ms in rows]


def _call_keys(shard: int, rid: str) -> list[str]:
    return [
        keys.hold_key(shard, rid),
        keys.done_key(shard, rid),
        keys.due_key(shard),
        keys.usage_key(shard),
        keys.epoch_key(shard),
        keys.scopes_key(shard),
    ]


def _hold(
    rid: str, fields: Sequence[bytes | None], done: bytes | None, due_ms: float | None
) -> Hold | None:
    held, opened, checkpoint = fields
    if held is not None:
        return Hold(
            rid=rid,
            state=HoldState.HELD,
            held_nanousd=int(held),
            opened=_readable(decode_opened, opened),
            checkpoint=_readable(decode_checkpoint, checkpoint),
            due_ms=None if due_ms is None else int(due_ms),
        )
    if done is not None:
        source, amount = done.split(b" ")[:2]
        state = HoldState.SETTLED if source == b"x" else HoldState.ESTIMATED
        return Hold(rid=rid, state=state, amount_nanousd=int(amount))
    return None


def _readable(decode: Callable[[bytes], Decoded], payload: bytes | None) -> Decoded | None:
    """A payload of a shape that is not known here (of a newer version, say) is left to others."""
    try:
        return decode(payload) if payload else None
    except msgspec.DecodeError:
        return None


def _epoch(value: bytes | None) -> ShardEpoch:
    if value is None:
        return ShardEpoch("unprimed", None)
    state, _, epoch = value.decode().partition(":")
    return ShardEpoch(cast(Literal["open", "priming"], state), epoch)
