"""The auditor of a soak: it knows the plan, what clients heard and when, and when harm was done.

What a call is charged is judged by the plan's prices and the plan's usage, bounded by what may be
held for it, never by what the product reports; each row of the ledger that was so judged is then
summed for budgets and credits. A row whose client heard no id is told by its tenant and prompt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from tests.chaos.auditor import Auditor, Books, Client, charge, nets_of
from tests.chaos.soak_parts import Heard
from tests.chaos.soak_plan import (
    FRAMES_MAX,
    NOTHING,
    OVERHEAD_TOKENS,
    PARTS,
    PROMPT_STEP,
    PROMPTS,
    ROLLING_S,
    SoakCall,
    Tenant,
    Usage,
    named_call,
    place_of,
)
from tests.chaos.soak_world import GatewayWorld

FELT_S = 5.0
"""How long after it harm may still be felt, and how long before it a call may have begun."""
KNOWN_WITHIN_S = 6.0
"""That an organization is frozen."""
SHRUNK_S = 0.25
"""Less than a client heard of a call it certainly was open."""
SHARED = {"redis", "edge", "clock", "sql", "disk", "ledger"}
"""The parts whose harm limits may feel."""
Span = tuple[float, float]
Known = tuple[Heard, Any]
"""What a client heard, and the row of the ledger."""


@dataclass(frozen=True, slots=True)
class Harm:
    """One fault, by the clock of the test."""

    name: str
    began_s: float
    ended_s: float


class SoakAuditor(Auditor):
    def __init__(self, world: GatewayWorld, tenants: Sequence[Tenant]) -> None:
        super().__init__(world.database.url, Client(world.seed))
        self._world = world
        self._tenants = {tenant.name: tenant for tenant in tenants}
        self.grants = [grant for tenant in tenants for grant in tenant.grants]
        self.harms: list[Harm] = []
        self.frozen: list[Span] = []
        """From the answer that said so until it was asked to end."""
        self.guarded: Counter[str] = Counter()
        """How often each law had something to judge."""

    # --- calls -----------------------------------------------------------------------------------

    def _calls(self, books: Books) -> Iterator[str]:
        self.guarded.clear()
        nets = nets_of(books)
        rows, strangers = self._rows_by_call(books)
        for rid in strangers:
            yield f"{rid} was never asked for: {books.best(rid)}"
        for rid in nets.keys() - books.events.keys():
            yield f"{rid} has moved {nets[rid]} without an event"
        for name, tries in self._world.callers_at_work.heard.items():
            wanted = named_call(self._world.seed, name)
            for why in self._wrong_rows(wanted, tries, rows[name], books, nets):
                yield f"{name}: {why} ({tries}, {wanted})"

    def _rows_by_call(self, books: Books) -> tuple[dict[str, list[str]], list[str]]:
        """Request ids by the name of the call; and those that nobody can have asked for."""
        heard = self._world.callers_at_work.heard
        names = {each.rid: name for name, tries in heard.items() for each in tries if each.rid}
        unheard: dict[tuple[str, int], list[str]] = defaultdict(list)
        for name, tries in heard.items():
            if any(not each.rid for each in tries):
                wanted = named_call(self._world.seed, name)
                tenant = self._world.organizations[wanted.tenant]
                unheard[tenant, wanted.prompt_bytes].append(name)
        found: dict[str, list[str]] = defaultdict(list)
        strangers: list[str] = []
        for rid in books.events:
            best: Any = books.best(rid)
            name = names.get(rid) or self._likely(best, unheard) or ""
            if name:
                found[name].append(rid)
            elif int(best["amount_nanousd"]):
                strangers.append(rid)
        return found, strangers

    def _likely(self, best: Any, unheard: dict[tuple[str, int], list[str]]) -> str | None:
        """A call that may have come to this, each of them once."""
        used = _used(best)
        for name in unheard[best["org"], place_of(used)] if any(used) else ():
            wanted = named_call(self._world.seed, name)
            if used in wanted.may_be_owed and best["model"] == wanted.model:
                unheard[best["org"], place_of(used)].remove(name)
                self.guarded["charges whose client heard no id"] += 1
                return name
        return None

    def _wrong_rows(
        self,
        wanted: SoakCall,
        tries: Sequence[Heard],
        rids: Sequence[str],
        books: Books,
        nets: dict[str, int],
    ) -> Iterator[str]:
        charged = [rid for rid in rids if nets.get(rid, 0)]
        if len(charged) > 1:
            yield f"charged {len(charged)} times: {charged}"
        for rid in rids:
            best = books.best(rid)
            assert best is not None
            used, net = _used(best), nets.get(rid, 0)
            if net != charge(wanted.model, used) or net != int(best["amount_nanousd"]):
                yield f"{rid}: {used} costs {charge(wanted.model, used)}, charged {net}: {best}"
            if used not in wanted.may_be_owed:
                yield f"{rid}: {used} cannot be owed"
            ids = (best["org"], best["model"])
            if ids != (self._world.organizations[wanted.tenant], wanted.model):
                yield f"{rid}: belongs to {ids}"
        for heard in tries:
            if why := self._wrong_try(wanted, heard, books, nets):
                yield f"{heard.rid}: {why}"

    def _wrong_try(
        self, wanted: SoakCall, heard: Heard, books: Books, nets: dict[str, int]
    ) -> str | None:
        best = books.best(heard.rid)
        if heard.is_whole:
            self.guarded["answers told whole"] += 1
            self.guarded["answers reported too high"] += wanted.owed != NOTHING and (
                wanted.reported is not None and wanted.reported[1] > wanted.most
            )
            owed = charge(wanted.model, wanted.owed)
            if best is None:
                return "answered, and nothing is on record"
            is_exact = best["source"] == "exact" and best["status"] == "answered"
            if not is_exact or _used(best) != wanted.owed or heard.told_nanousd != owed:
                return f"{wanted.owed} is owed, {heard.told_nanousd} told, on record is {best}"
            return None
        used = _used(best) if best else NOTHING
        if heard.failed and not wanted.keyed:
            self.guarded["failures told"] += 1
            due = wanted.owed_for(heard.frames)
            return None if used == due else f"{due} is due for a failure, on record is {best}"
        if heard.frames and best is None:
            return f"{heard.frames} pieces were heard, and nothing is on record"
        if heard.left and heard.frames and not self._harmed(heard.sent_s, heard.ended_s, {"edge"}):
            self.guarded["clients that left"] += 1
            if used != wanted.owed and used[2] < heard.frames:
                return f"{heard.frames} pieces were heard, on record is {best}"
        return None

    # --- money and limits ------------------------------------------------------------------------

    def overspent(self, books: Books) -> Iterator[str]:
        spent = self.spent(books)
        for tenant in self._tenants.values():
            scopes = self._world.scopes[tenant.name]
            paid = sum(grant.amount for grant in tenant.grants)
            most = {
                "key": tenant.hard if tenant.hard and not tenant.window else None,
                "org": paid + (tenant.may_owe or 0) if tenant.grants else None,
            }
            if tenant.hard and tenant.window and not (tenant.is_soft or self._is_rolling(tenant)):
                most[tenant.window_scope] = tenant.hard
            for kind, bound in most.items():
                if bound is not None and spent.get(scopes[kind], 0) > bound:
                    yield f"{tenant.name} has spent {spent[scopes[kind]]} of {bound}"
            yield from self._debts(tenant, books)
            yield from self._beyond_limits(tenant, books)

    def _is_rolling(self, tenant: Tenant) -> bool:
        return tenant.window.get("kind") == "rolling"

    def _debts(self, tenant: Tenant, books: Books) -> Iterator[str]:
        account = f"org:{self._world.organizations[tenant.name]}:unbilled"
        debits, credits = books.accounts.get(account, (0, 0))
        if tenant.pays_before and debits != credits:
            yield f"{tenant.name} is prepaid and owes {debits - credits}"

    def _beyond_limits(self, tenant: Tenant, books: Books) -> Iterator[str]:
        found = [(each, books.best(each.rid)) for each, _ in self._calls_of(tenant) if each.rid]
        known = sorted(
            ((each, best) for each, best in found if best is not None),
            key=lambda pair: pair[0].sent_s,
        )
        limits = tenant.limits
        if self._is_rolling(tenant) and tenant.hard:
            yield from self._beyond_rolling(tenant.hard, known)
        if "requests_per_minute" in limits:
            minute, burst = limits["requests_per_minute"], limits["request_burst"]
            yield from self._beyond_rate("requests", minute, burst, known, lambda best: 1)
        if "tokens_per_minute" in limits:
            most = tenant.callers * (PROMPT_STEP * (PROMPTS + 1) + OVERHEAD_TOKENS + 2 * FRAMES_MAX)
            minute, burst = limits["tokens_per_minute"], limits["token_burst"]
            yield from self._beyond_rate(
                "tokens", minute, burst + most, known, lambda best: sum(_used(best))
            )
        if "concurrency" in limits:
            yield from self._beyond_slots(limits["concurrency"], known)
        if tenant.freezes:
            yield from self._beyond_freezing(tenant)

    def _beyond_rolling(self, most: int, known: Sequence[Known]) -> Iterator[str]:
        """Calls that began and ended within any such span, where no clock was moved."""
        for span in self.calm_spans({"clock"}, around_s=ROLLING_S):
            calls = _within(known, span)
            sent = [each.sent_s for each, _ in calls]
            for place, from_s in enumerate(sent):
                behind = calls[place : bisect_left(sent, from_s + ROLLING_S)]
                self.guarded["rolling spans"] += 1
                spent = sum(
                    int(best["amount_nanousd"])
                    for each, best in behind
                    if each.ended_s <= from_s + ROLLING_S
                )
                if spent > most:
                    yield f"{spent} spent in {ROLLING_S} s, of {most}"
                    return

    def _beyond_rate(
        self,
        what: str,
        minute: int,
        burst: int,
        known: Sequence[Known],
        amount: Callable[[Any], int],
    ) -> Iterator[str]:
        """From each call on to each later one, where nothing was done to anybody."""
        for span in self.calm_spans(SHARED):
            calls = [pair for pair in _within(known, span) if any(_used(pair[1]))]
            for place, (first, _) in enumerate(calls):
                total, until_s = 0, first.sent_s
                for each, best in calls[place:]:
                    total, until_s = total + amount(best), max(until_s, each.ended_s)
                    self.guarded[f"spans of {what}"] += 1
                    if total > burst + 1 + minute * (until_s - first.sent_s) / 60:
                        yield f"{total} {what} in {until_s - first.sent_s:.1f} s"
                        return

    def _beyond_slots(self, most: int, known: Sequence[Known]) -> Iterator[str]:
        """Streams that certainly were open at once, where nothing was done to anybody."""
        for span in self.calm_spans(SHARED):
            moves = []
            for heard, _ in _within(known, span):
                from_s, until_s = heard.first_s, heard.last_s - SHRUNK_S
                if heard.first_s and from_s < until_s:
                    moves += [(from_s, 1), (until_s, -1)]
            open_now = 0
            for at_s, change in sorted(moves):
                open_now += change
                self.guarded["slots taken"] += change > 0
                if open_now > most:
                    yield f"{open_now} calls at once at {at_s:.2f}, {most} may be"
                    return

    def _beyond_freezing(self, tenant: Tenant) -> Iterator[str]:
        """Nobody is answered who asked after every gateway had time to read that it is frozen."""
        for from_s, until_s in self.frozen:
            for each, _ in self._calls_of(tenant):
                is_within = from_s + KNOWN_WITHIN_S < each.sent_s and each.ended_s < until_s
                if is_within and not self._harmed(from_s, each.ended_s, {"sql", "edge", "clock"}):
                    self.guarded["calls of the frozen"] += 1
                    if each.is_whole:
                        yield f"{each.rid} was answered while {tenant.name} was frozen"

    def _calls_of(self, tenant: Tenant) -> Iterator[tuple[Heard, str]]:
        for name, tries in self._world.callers_at_work.heard.items():
            if name.split("-")[1] == tenant.name:
                yield from ((each, name) for each in tries)

    def _harmed(self, from_s: float, until_s: float, parts: set[str]) -> bool:
        return any(
            PARTS[harm.name] & parts
            and harm.began_s - FELT_S < until_s
            and from_s < harm.ended_s + FELT_S
            for harm in self.harms
        )

    def calm_spans(self, parts: set[str], around_s: float = FELT_S) -> list[Span]:
        """Between harm that was done to these."""
        found, from_s = [], 0.0
        for harm in sorted(self.harms, key=lambda harm: harm.began_s):
            if PARTS[harm.name] & parts:
                if from_s < harm.began_s - around_s:
                    found.append((from_s, harm.began_s - around_s))
                from_s = max(from_s, harm.ended_s + around_s)
        return [*found, (from_s, inf)]


def _within(known: Sequence[Known], span: Span) -> list[Known]:
    from_s, until_s = span
    return [pair for pair in known if from_s <= pair[0].sent_s and pair[0].ended_s <= until_s]


def _used(best: Any) -> Usage:
    return int(best["input"]), int(best["cached_input"]), int(best["output"])
