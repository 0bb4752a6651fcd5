"""Tokens that are counted before anything is taken for them: for calls that are free, and for the
prompts of those that may be refused.

Each gateway bounds this by itself. Free calls have their own bucket for each scope that limits
requests, of the same size as the scope's, and one for the organization. Large texts are counted
beside the event loop, a few at a time, and by a bucket of the same kind before they are.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import ParamSpec, TypeVar

from billing.limits.contract import Contract, Units, contract_of
from billing.limits.local import LocalRates
from billing.limits.rates import never_fits
from billing.limits.types import Refused, ScopeLimits
from gateway.call.refusals import refusal
from gateway.errors import rate_limited
from gateway.tenants.auth import Principal
from routing.types import Clock

LARGE_BYTES = 16 * 1024
"""A text of more takes milliseconds, for which the event loop, and so every stream, would wait."""
AT_ONCE = 3
AT_ONCE_EACH = 2
"""Of one organization, so that another one's are counted meanwhile."""
WAITING_MAX_EACH = 256
WAITING_RETRY_S = 1.0
BUCKETS_MAX = 10_000
REQUEST = Units(0, 0)

P = ParamSpec("P")
T = TypeVar("T")


class PromptCounter:
    """`free_per_minute` is how many free calls an organization may make, whatever its keys may."""

    def __init__(self, free_per_minute: int, clock: Clock) -> None:
        self._free_per_minute = free_per_minute
        self._clock = clock
        self._free = LocalRates(share=1.0, buckets_max=BUCKETS_MAX)
        self._large = LocalRates(share=1.0, buckets_max=BUCKETS_MAX)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._organizations: dict[str, asyncio.Semaphore] = {}
        self._present: Counter[str] = Counter()

    async def free(
        self,
        caller: Principal,
        body_bytes: int,
        work: Callable[P, T],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """The work of a free call. Raises ApiError 429."""
        self._take(self._free, self._free_scopes(caller), caller)
        if body_bytes > LARGE_BYTES:
            return await self.beside(caller.organization, work, *args, **kwargs)
        return work(*args, **kwargs)

    async def large(
        self, caller: Principal, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The work on a large text, which is refused before it is done where its caller has sent
        more of them than it may make calls. Raises ApiError 429."""
        self._take(self._large, _requests_of(caller), caller)
        return await self.beside(caller.organization, work, *args, **kwargs)

    def _take(self, rates: LocalRates, scopes: tuple[ScopeLimits, ...], caller: Principal) -> None:
        contract = contract_of(scopes)
        answer = never_fits(REQUEST, contract) or self._refused(rates, contract)
        if answer is not None:
            raise refusal(answer, scopes, caller.quota_status)

    def _refused(self, rates: LocalRates, contract: Contract) -> Refused | None:
        now_us = round(self._clock() * 1e6)
        answer = rates.admit(contract, REQUEST, processes=1, now_us=now_us)
        return answer if isinstance(answer, Refused) else None

    def _free_scopes(self, caller: Principal) -> tuple[ScopeLimits, ...]:
        scopes = {limits.scope: limits for limits in _requests_of(caller)}
        name = f"org:{caller.organization}"
        declared = scopes.get(name)
        if declared is None or (declared.requests_per_minute or 0) > self._free_per_minute:
            scopes[name] = ScopeLimits(scope=name, requests_per_minute=self._free_per_minute)
        return tuple(scopes.values())

    async def beside(
        self, organization: str, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Work on a large text that was let in already. Raises ApiError 429. Who leaves meanwhile
        leaves work behind, whose place is free once it is done."""
        if self._present[organization] >= WAITING_MAX_EACH:
            message = f"{WAITING_MAX_EACH} large texts of the organization wait to be counted."
            raise rate_limited(message, WAITING_RETRY_S, {})
        own = self._organizations.setdefault(organization, asyncio.Semaphore(AT_ONCE_EACH))
        self._present[organization] += 1
        with ExitStack() as stack:
            stack.callback(self._leave, organization)
            for places in (own, self._places):
                await places.acquire()
                stack.callback(places.release)
            count = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
            places_of_count = stack.pop_all()
        count.add_done_callback(lambda done: _give_back(done, places_of_count))
        return await asyncio.shield(count)

    def _leave(self, organization: str) -> None:
        self._present[organization] -= 1
        if not self._present[organization]:
            del self._present[organization], self._organizations[organization]


def _give_back(count: "asyncio.Future[T]", places: ExitStack) -> None:
    places.close()
    if not count.cancelled():
        count.exception()  # or asyncio says that nobody asked


def _requests_of(caller: Principal) -> tuple[ScopeLimits, ...]:
    """The scopes that limit requests, and nothing else of them."""
    return tuple(
        ScopeLimits(
            scope=limits.scope,
            requests_per_minute=limits.requests_per_minute,
            request_burst=limits.request_burst,
        )
        for limits in caller.scopes
        if limits.requests_per_minute is not None
    )
