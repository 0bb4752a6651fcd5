"""What organizations may still spend, in memory with bounded staleness: no SQL on a call's path.

The truth is the ledger's; it publishes a line for each organization with credits, and usage leaves
what follows from a line where it is. Whoever is not known to have credits has none: a gateway that
has read nothing yet refuses rather than guess. Guards law 20 at the edge.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError

from billing.credits.credit import CreditLine
from billing.credits.lines import read_lines
from billing.limits.types import ScopeLimits
from gateway.tenants.auth import Principal

log = logging.getLogger(__name__)

ORGANIZATION_AT = 2
"""Where the scope of the organization stands among those of a call."""


class CreditLines:
    def __init__(self, redis: Redis, poll_s: float) -> None:
        self._redis = redis
        self._poll_s = poll_s
        self._revision = 0
        self._lines: dict[str, CreditLine] = {}
        self.is_known = False
        """Whether what the ledger publishes was ever read."""

    async def run(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(self._poll_s)

    async def refresh(self) -> None:
        """Look once; what is out of reach is kept as it was, and logged."""
        try:
            revision, lines = await read_lines(self._redis, self._revision)
        except (RedisError, OSError, msgspec.DecodeError) as unreadable:
            log.warning("credits: kept as they were: %s", unreadable)
            return
        for line in lines:
            self.learn(line)
        self._revision = revision
        self.is_known = self.is_known or revision > 0

    def learn(self, line: CreditLine) -> None:
        """Of two lines of an organization the later one counts, however they come."""
        present = self._lines.get(line.org)
        if present is None or present.moved_us < line.moved_us:
            self._lines[line.org] = line

    def bound(
        self,
        scopes: tuple[ScopeLimits, ...],
        principal: Principal,
        models: Iterable[str],
        admitted_us: int,
    ) -> tuple[ScopeLimits, ...]:
        """The scopes of a call that may end on any of `models`, that of its organization with what
        it may spend ever; unchanged where that is whatever it comes to."""
        may_owe = principal.may_owe_nanousd
        if may_owe is None:
            return scopes
        line = self._lines.get(principal.organization) or CreditLine(principal.organization)
        ceiling = line.ceiling(models, admitted_us, may_owe)
        organization = replace(scopes[ORGANIZATION_AT], ceiling_nanousd=ceiling)
        return (*scopes[:ORGANIZATION_AT], organization, *scopes[ORGANIZATION_AT + 1 :])
