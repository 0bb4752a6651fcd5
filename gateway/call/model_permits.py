"""Limits of single models for a call that goes on to another one: they are taken as it moves there.

A call is admitted under the limits of the model that is chosen first. It counts under those of each
model that it was sent to until it ends, when they are given back with all else that it took. Guards
law 24: no model serves a call that its own limits have not counted.
"""

from billing.limits.holds import Holds
from billing.limits.types import Admitted, LimitsUnavailable, Lost, ScopeLimits
from gateway.call.open_call import OpenCall
from gateway.call.outage import Outage
from gateway.limits.slots import Slots


class ModelPermits:
    def __init__(self, holds: Holds, outage: Outage, slots: Slots) -> None:
        self._holds = holds
        self._outage = outage
        self._slots = slots

    async def take(self, open_call: OpenCall, model: str) -> bool:
        """Whether the call may go to a model: True once it has the model's own limits, if it has
        any. False: they are used up, and nothing was taken."""
        scopes = _missing(open_call, model)
        if not scopes:
            return True
        try:
            answer = await self._holds.extend(open_call.opened, scopes)
        except LimitsUnavailable:
            answer = Lost(settled=False)
        if answer == Lost(settled=False):
            if not self._outage.extend(open_call, scopes, self._slots):
                return False
            open_call.untold_scopes += scopes
        elif not isinstance(answer, Admitted):
            return False
        open_call.scopes += scopes
        self._slots.enter(scopes, open_call.opened.admitted_us / 1e6)
        return True


def _missing(open_call: OpenCall, model: str) -> tuple[ScopeLimits, ...]:
    """The scopes of the model that the call has not taken."""
    of_model = open_call.principal.narrow.models.get(model)
    if not of_model:
        return ()
    taken = {limits.scope for limits in open_call.scopes}
    return tuple([limits for limits in of_model if limits.scope not in taken])
