"""Step 7's money: what is held for a running call is kept alive and topped up slice by slice.

One call of Redis extends the lease, checkpoints the usage and holds the next slice; a Redis that
forgot the hold is told of it again. Guards law 8 at the edge: output that no held money covers is
refused here, before it is counted or sent.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from billing.limits.holds import Holds
from billing.limits.types import Dimension, LimitsUnavailable, Lost, Renewed, RenewRefused
from billing.spool.spool import Spool, SpoolFull
from billing.types import UsageCheckpoint
from gateway.call.open_call import OpenCall
from gateway.call.outage import Outage
from routing.types import Clock

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Bounds of holding: seconds, and output tokens of one slice."""

    slice_tokens: int = 256
    slice_margin_tokens: int = 64
    """A slice is topped up when this much of it is left, more than any frame carries."""
    lease_s: float = 30.0
    renew_every_s: float = 2.0
    retry_every_s: float = 0.5
    outage_wait_s: float = 10.0
    """How long a stream that has used its slice up waits for a Redis that is away."""


class Renewal(Enum):
    GRANTED = "granted"
    REFUSED = "refused"
    AWAY = "away"


class Leases:
    def __init__(
        self,
        *,
        holds: Holds,
        spool: Spool,
        outage: Outage,
        settings: LeaseSettings,
        clock: Clock,
        is_suspended: Callable[[str], bool] = lambda _organization: False,
    ) -> None:
        """No money is held any more for an organization that is suspended."""
        self.settings = settings
        self._is_suspended = is_suspended
        self._outage = outage
        self._holds = holds
        self._spool = spool
        self._clock = clock

    async def covers(self, open_call: OpenCall, output_tokens: int) -> bool:
        """True while the money held covers so much output; tops the hold up when it runs low.

        Refused: what is held may still be used up. Redis away: the same, and then a bounded wait,
        unless the organization lets this gateway hold more on its own.
        """
        wait_until_s = self._clock() + self.settings.outage_wait_s
        while self._runs_low(open_call, output_tokens):
            renewal = await self._grant_slice(open_call)
            if open_call.output_tokens_granted >= output_tokens:
                return True
            if renewal is Renewal.REFUSED or self._clock() > wait_until_s:
                return False
            if renewal is Renewal.AWAY:
                await asyncio.sleep(self.settings.retry_every_s)
        return output_tokens <= open_call.output_tokens_granted

    async def covers_all(self, open_call: OpenCall, model: str) -> bool:
        """True once all the output that the call may have is held: for a server outside, which
        does not count as it goes. `model` is the one that it serves."""
        most = open_call.call.output_tokens_max
        if open_call.output_tokens_granted < most:
            await self._grant(open_call, most, model)
        return open_call.output_tokens_granted >= most

    def has_plenty(self, open_call: OpenCall, output_tokens: int) -> bool:
        """It is covered, and there is nothing to be asked for."""
        room = open_call.output_tokens_granted - output_tokens
        if room > self.settings.slice_margin_tokens:
            return True
        return room >= 0 and not self._runs_low(open_call, output_tokens)

    def _runs_low(self, open_call: OpenCall, output_tokens: int) -> bool:
        if open_call.output_tokens_granted >= open_call.call.output_tokens_max:
            return False
        room = open_call.output_tokens_granted - output_tokens
        waits_for_more = open_call.output_tokens_requested > open_call.output_tokens_granted
        return room < 0 or (room <= self.settings.slice_margin_tokens and not waits_for_more)

    async def _grant_slice(self, open_call: OpenCall) -> Renewal:
        more = open_call.output_tokens_granted + self.settings.slice_tokens
        most = min(open_call.call.output_tokens_max, more)
        return await self._grant(open_call, most, open_call.model)

    async def _grant(self, open_call: OpenCall, output_tokens: int, model: str) -> Renewal:
        """Hold so much output. Where the money covers it at `model` but at no dearer one, the call
        goes on to no dearer one."""
        renewal = await self._top_up(open_call, output_tokens)
        if renewal is Renewal.REFUSED and open_call.leave_out_dearer(model, output_tokens):
            renewal = await self._top_up(open_call, output_tokens)
        return renewal

    async def _top_up(self, open_call: OpenCall, output_tokens: int) -> Renewal:
        if self._is_suspended(open_call.opened.org):
            return Renewal.REFUSED
        needed = open_call.quote.hold_nanousd(open_call.call, output_tokens)
        topup = max(0, needed - open_call.held_nanousd)
        open_call.output_tokens_requested = output_tokens
        renewal = await self.renew(open_call, topup)
        if renewal is Renewal.AWAY and self._outage.top_up(open_call, topup):
            renewal = Renewal.GRANTED
        if renewal is Renewal.GRANTED:
            open_call.output_tokens_granted = output_tokens
        return renewal

    async def renew(self, open_call: OpenCall, topup_nanousd: int = 0) -> Renewal:
        """Extend the lease, checkpoint the usage and top the hold up, in one round trip."""
        checkpoint = open_call.checkpoint(self._now_us())
        open_call.renewed_s = self._clock()
        self._spool_checkpoint(open_call.rid, checkpoint)
        try:
            answer = await self._holds.renew(
                open_call.rid,
                open_call.opened.org,
                lease_s=self.settings.lease_s,
                topup_nanousd=topup_nanousd,
                checkpoint=checkpoint,
            )
            if answer == Lost(settled=False):
                await self._announce(open_call)
            elif open_call.untold_scopes:
                await self._tell_scopes(open_call)
        except LimitsUnavailable:
            return Renewal.AWAY
        match answer:
            case Renewed():
                return Renewal.GRANTED
            case RenewRefused(dimension=Dimension.UNPRIMED) | Lost(settled=False):
                return Renewal.AWAY
            case _:
                return Renewal.REFUSED

    def _spool_checkpoint(self, rid: str, checkpoint: UsageCheckpoint) -> None:
        try:
            self._spool.checkpoint(rid, checkpoint)
        except SpoolFull as full:
            log.error("a checkpoint of %s was not spooled: %s", rid, full)

    async def _tell_scopes(self, open_call: OpenCall) -> None:
        """What it took of limits while Redis was away counts there from now on; else the next
        renewal tells it."""
        with suppress(LimitsUnavailable):
            for limits in open_call.untold_scopes:
                await self._holds.extend(open_call.opened, (limits,), unasked=True)
            open_call.untold_scopes = ()

    async def _announce(self, open_call: OpenCall) -> None:
        """Tell a Redis that has forgotten this hold about it again."""
        await self._holds.reannounce(
            open_call.opened,
            open_call.scopes,
            held_nanousd=open_call.held_nanousd,
            lease_s=self.settings.lease_s,
            checkpoint=open_call.checkpoint(self._now_us()),
            purses=open_call.purses,
        )

    def _now_us(self) -> int:
        return round(self._clock() * 1e6)
