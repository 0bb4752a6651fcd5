"""A call before anything was taken for it: as it came in, as it was shaped, and priced.

Pure. Owns which models are asked next where limits or money refuse a call: see `instead`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from gateway.call.model_limits import only, without
from gateway.call.open_call import Quote
from gateway.call.request import GeneratingRequest
from gateway.decisions.recorder import DecisionMade
from gateway.errors import ApiError
from gateway.policies.matching import PolicyMatch
from gateway.tenants.auth import Principal
from routing.replicas.blocks import Beginning
from routing.types import AUTO_MODEL, Call


class Received(msgspec.Struct, frozen=True):
    """A generating request as it came in: its id, when, what it said and who it claims to be."""

    request_id: str
    arrived_s: float
    headers: Mapping[str, str]
    request: GeneratingRequest
    body_bytes: int = 0
    idempotency: str | None = None
    """SHA-256 of the key under which it is to run once."""


class Shaped(NamedTuple):
    """A call, and how its prompt begins, for whoever looks for the cache that has it."""

    call: Call
    beginning: Beginning


class TurnedDown(NamedTuple):
    """The decision of a call that limits or money refused, and what its caller is told."""

    made: DecisionMade
    error: ApiError


class PricedCall(NamedTuple):
    """A call after steps 1 to 3. Nothing has been taken for it."""

    principal: Principal
    received: Received
    beginning: Beginning
    match: PolicyMatch
    call: Call
    quote: Quote
    uncovered: TurnedDown | None = None
    """Of a call that goes to cheaper models: how its own one was refused for lack of money. What
    refuses it there does not hide this."""

    def without(self, model: str | None) -> "PricedCall | None":
        """The same call on its other models; None if there are none. A call that names its model
        goes on to no other one because of that model's limits."""
        if model == self.call.model_requested:
            return None
        left = without(self.call, self.quote, model)
        if left is None or self.call.uncovered.issuperset(left[0].models):
            return None
        return self._replace(call=left[0], quote=left[1])

    def cheaper_models(self, chosen: str) -> tuple[str, ...]:
        """Those that the rule names for a call whose money does not cover the model `chosen`, and
        that were not refused before."""
        if self.call.model_requested == AUTO_MODEL:
            return ()
        done = {*self.call.uncovered, chosen}
        return tuple([m for m in self.match.matched.action.cheaper_models if m not in done])

    def on_cheaper(self, call: Call, quote: Quote, chosen: str) -> "PricedCall | None":
        """This call, shaped and priced anew, on those models; None where none of them can take
        it."""
        uncovered = self.call.uncovered | {chosen}
        left = self.cheaper_models(chosen)
        if quote.prices.keys().isdisjoint(left):
            return None
        models = tuple([m for m in quote.prices if m in left or m in uncovered])
        call, quote = only(call._replace(uncovered=uncovered), quote, models)
        return self._replace(call=call, quote=quote)

    def to_hold(self) -> tuple[Call, Quote]:
        """The call on the models that money may be held for."""
        if not self.call.uncovered:
            return self.call, self.quote
        models = tuple([m for m in self.call.models if m not in self.call.uncovered])
        return only(self.call, self.quote, models)
