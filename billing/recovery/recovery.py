"""Recovery after a gateway or Redis died: calls in the spool are settled, running calls are
announced.

A record that has arrived already is left alone, so doing any of this twice changes nothing. Law:
every call that was admitted ends with exactly one usage event. The event is exact if the gateway
saw the end of the call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass

from billing.limits.holds import Holds
from billing.limits.types import Booked, HardBudget, ScopeLimits, SettleState
from billing.prices.estimate import Rate, cut_call, later
from billing.spool.segments import RIDS_AT_ONCE, BookedOf
from billing.spool.spool import SpooledCall
from billing.types import OpenedCall, SettledCall, UsageCheckpoint, UsageSource


@dataclass(frozen=True, slots=True)
class LiveCall:
    """A call that this gateway still relays, with what its announcement needs."""

    opened: OpenedCall
    scopes: Sequence[ScopeLimits]
    held_nanousd: int
    checkpoint: UsageCheckpoint | None
    purses: Sequence[HardBudget] = ()


async def replay_spool(
    calls: Sequence[SpooledCall],
    *,
    holds: Holds,
    known: BookedOf,
    rate: Rate,
    now_us: Callable[[], int],
    live: Container[str] = frozenset(),
) -> Counter[SettleState]:
    """Settle every spooled call that neither SQL nor Redis has. A call whose end was seen is
    settled exactly, any other is estimated from its last checkpoint. Calls in `live` still run and
    are left alone.

    At its start a gateway replays its former segments before it serves. After Redis was restarted
    or emptied it replays its present ones. `live` then has the calls that ran before the spool was
    read or run now. Raises LimitsUnavailable half-way; repeat it then.
    """
    outcomes: Counter[SettleState] = Counter()
    ended = [call for call in calls if call.rid not in live]
    for start in range(0, len(ended), RIDS_AT_ONCE):
        batch = ended[start : start + RIDS_AT_ONCE]
        booked = await known([call.rid for call in batch])
        for call in batch:
            settled = await _owed(call, booked.get(call.rid), holds, rate, now_us)
            if settled is None:
                outcomes[SettleState.ALREADY] += 1
                continue
            before = booked.get(call.rid)
            booked_nanousd = before.amount_nanousd if before else 0
            outcomes[await holds.settle(settled, booked_nanousd=booked_nanousd)] += 1
    return outcomes


async def reannounce(
    calls: Iterable[LiveCall], *, holds: Holds, known: BookedOf, lease_s: float
) -> dict[str, Booked]:
    """Bring back the holds of running calls after Redis was emptied. A hold that Redis knows is
    left alone.

    Returns what the ledger has already booked for some of them, which were settled as estimated
    before. Those get no new hold. Their amount is to be passed to `settle` as `booked_nanousd`.
    """
    running = list(calls)
    booked: dict[str, Booked] = {}
    for start in range(0, len(running), RIDS_AT_ONCE):
        batch = running[start : start + RIDS_AT_ONCE]
        booked |= await known([call.opened.rid for call in batch])
        for call in batch:
            if call.opened.rid not in booked:
                await holds.reannounce(
                    call.opened,
                    call.scopes,
                    held_nanousd=call.held_nanousd,
                    lease_s=lease_s,
                    checkpoint=call.checkpoint,
                    purses=call.purses,
                )
    return booked


async def _owed(
    call: SpooledCall,
    booked: Booked | None,
    holds: Holds,
    rate: Rate,
    now_us: Callable[[], int],
) -> SettledCall | None:
    """The settlement that is still missing, or None."""
    if booked and booked.source is UsageSource.EXACT:
        return None
    if call.closed:
        return call.closed
    if booked or call.opened is None:
        return None
    hold = await holds.read(call.rid, call.opened.org)
    checkpoint = later(call.checkpoint, hold.checkpoint if hold else None)
    return cut_call(call.opened, checkpoint, ended_us=now_us(), rate=rate)
