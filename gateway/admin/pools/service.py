"""Pools as an administrator keeps them, and one cheap call of an external one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import PydanticCustomError
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from billing.written_usd import in_usd
from gateway.admin.models.service import Refresh
from gateway.admin.pools.schemas import PoolAnswer, PoolBody
from gateway.admin.use_cases import ADMIN, AdminStore, NotThere, admin_store, attempt, must_get
from gateway.api.dependencies import parts_of
from gateway.api.pages import PageRequest, PageRows
from gateway.catalog.catalog import CatalogKeeper
from gateway.catalog.external import ExternalRules
from gateway.catalog.fit import mixed_misfits, pool_misfits, priced, variant_of
from gateway.catalog.fleet import FleetKeeper
from gateway.catalog.hardware import parts_with
from gateway.catalog.mix import mix_misfits, mix_neighbours
from gateway.catalog.plan import unbought
from gateway.catalog.tables import HardwareRow, ModelRow, PoolRow, VariantRow
from gateway.errors import ApiError, bad_request
from gateway.providers.served import OutsideModel, read_models
from gateway.providers.tables import bought_models
from gateway.tenants.store import Conflict
from gateway.upstream.answer import UpstreamError
from gateway.upstream.check import (
    NOT_SET_UP,
    OUTPUT_TOKENS,
    PATIENCE,
    PoolCheck,
    cheap_call,
    check,
)
from gateway.upstream.fault import Fault
from gateway.upstream.openai import OpenAIUpstream, Target
from gateway.upstream.places import Places
from routing.types import Clock
from workers.autoscaling.demand import PoolOrder
from workers.controller.orders import PoolOrders
from workers.mix import Mix
from workers.nodes.node_type import NodeType


@dataclass(frozen=True, slots=True)
class PoolService:
    """Raises ApiError: 404 for an unknown pool, 409 where its model is not there, 400 for what
    `rules` forbid."""

    store: AdminStore
    rules: ExternalRules
    refresh: Refresh
    why_blocked: Callable[[str], str | None]
    nodes: Sequence[NodeType] = ()
    mixes: Sequence[Mix] = ()

    async def page(self, request: PageRequest) -> PageRows[PoolAnswer]:
        page = await self.store.page(request, PoolRow)
        return PageRows([self.answer(row) for row in page.data], page.after)

    def answer(self, row: PoolRow) -> PoolAnswer:
        return PoolAnswer.of(row, self.why_blocked(row.name))

    async def put(self, name: str, body: PoolBody) -> PoolRow:
        for key, words in self.rules.mistakes(body.base_url, body.api_key_env):
            raise bad_request(f"{key}: {words}", key)
        columns = priced(body, self.nodes).model_dump()
        row = PoolRow(name=name, source=ADMIN, **columns)

        def work(session: Session) -> PoolRow:
            model = session.get(ModelRow, row.model)
            if model is None or not model.enabled:
                raise Conflict(f"there is no model {row.model!r}")
            variant = session.get(VariantRow, (row.model, row.variant))
            if variant is None or not variant.enabled:
                variants = {}
            else:
                variants = {(row.model, row.variant): variant_of(variant, model.context_tokens)}
            own = session.exec(select(HardwareRow).where(col(HardwareRow.enabled))).all()
            others = session.exec(_others(row)).all()
            misfits = pool_misfits(row, variants, parts_with(own), self.nodes)
            beside = {
                each.name: each for each in session.exec(_named(mix_neighbours(name, self.mixes)))
            }
            of_mix = mix_misfits(name, row, self.mixes, beside)
            if words := unbought(row, bought_models(session, self.store.now_us)):
                raise bad_request(f"upstream_model: {words}", "upstream_model")
            for field, words in (*misfits, *mixed_misfits(row, others), *of_mix):
                raise bad_request(f"{field}: {words}", field)
            return session.merge(row)

        stored = await self.store.change("pool.put", name, work, **columns)
        await self.refresh()
        return stored

    async def change(self, name: str, changes: Mapping[str, Any]) -> PoolRow:
        """Some fields of a pool; the others stay as they are."""
        before = await self.pool(name)
        fields = {field: getattr(before, field) for field in PoolBody.model_fields}
        try:
            body = PoolBody.model_validate(_in_usd(fields) | _in_usd(changes))
        except PydanticCustomError as wrong:
            raise bad_request(wrong.message()) from wrong
        except ValidationError as wrong:
            raise RequestValidationError(wrong.errors()) from wrong
        return await self.put(name, body)

    async def disable(self, name: str) -> PoolRow:
        def work(session: Session) -> PoolRow:
            row = must_get(session, PoolRow, name)
            row.enabled, row.source = False, ADMIN
            session.add(row)
            return row

        row = await self.store.change("pool.disable", name, work)
        await self.refresh()
        return row

    async def pool(self, name: str) -> PoolRow:
        """One that is disabled is not there."""

        def work() -> PoolRow:
            row = self.store.tenants.one(PoolRow, name)
            if row is None or not row.enabled:
                raise NotThere(name)
            return row

        return await attempt(work)


def _others(row: PoolRow) -> SelectOfScalar[PoolRow]:
    of_model = (PoolRow.model == row.model, PoolRow.name != row.name)
    return select(PoolRow).where(*of_model, col(PoolRow.enabled))


def _named(names: Sequence[str]) -> SelectOfScalar[PoolRow]:
    return select(PoolRow).where(col(PoolRow.name).in_(names), col(PoolRow.enabled))


def _in_usd(fields: Mapping[str, Any]) -> dict[str, Any]:
    return in_usd(fields, PoolBody.model_fields)


Rung = Literal["warm", "sleeping", "cold"]


class OrderedPool(NamedTuple):
    pool: str
    replicas: int
    to: Rung


@dataclass(frozen=True, slots=True)
class PoolOrderer:
    """Orders of an administrator, which the controller carries out. Raises ApiError: 404 for an
    unknown pool, 400 for one without replicas here and for more replicas than it may have, 409
    where `min_replicas` keeps some."""

    pools: PoolService
    orders: PoolOrders

    async def wake(self, name: str, replicas: int) -> OrderedPool:
        pool = await self._own_pool(name)
        if replicas > pool.max_replicas:
            raise bad_request(f"'{name}' has at most {pool.max_replicas} replicas.", "replicas")
        return await self._order("pool.wake", pool, replicas, "warm")

    async def sleep(self, name: str, to: Rung) -> OrderedPool:
        pool = await self._own_pool(name)
        if pool.min_replicas:
            raise ApiError(409, f"min_replicas keeps {pool.min_replicas}.", code="conflict")
        return await self._order("pool.sleep", pool, 0, to)

    async def _own_pool(self, name: str) -> PoolRow:
        pool = await self.pools.pool(name)
        if pool.base_url is not None:
            raise bad_request(f"'{name}' is an external pool: it has no replicas here.", "name")
        return pool

    async def _order(self, action: str, pool: PoolRow, replicas: int, to: Rung) -> OrderedPool:
        """The audit row comes first: no order is unknown."""
        change = self.pools.store.change
        await change(action, pool.name, lambda session: pool, replicas=replicas, to=to)
        order = PoolOrder(str(self.pools.store.now_us), replicas, to_sleep=to == "sleeping")
        await self.orders.give(pool.name, order)
        return OrderedPool(pool.name, replicas, to)


class CheckedPool(NamedTuple):
    row: PoolRow
    check: PoolCheck


@dataclass(frozen=True, slots=True)
class PoolChecker:
    """Makes one cheap call of an external pool; no tenant pays for it. Raises ApiError: 404 for an
    unknown pool, 400 for one whose own replicas serve it."""

    pools: PoolService
    fleet: FleetKeeper
    catalog: CatalogKeeper
    places: Places
    upstream: OpenAIUpstream
    clock: Clock

    async def check(self, name: str, key: str | None = None) -> CheckedPool:
        """With a key of its provider's account. None: as any call of the pool has one."""
        await self.catalog.refresh()
        return CheckedPool(await self.pools.pool(name), await self._check(name, key))

    async def models(self, name: str) -> list[OutsideModel]:
        """What its server serves. Raises ApiError besides: 400 where it has an adapter, is not set
        up, or lists none."""
        await self.catalog.refresh()
        row, state = await self.pools.pool(name), self.fleet.state(name)
        if state is None or not state.pool.is_external:
            raise bad_request(f"'{name}' is no external pool: its own replicas serve it.", "name")
        if state.pool.adapter is not None:
            raise bad_request(f"'{name}' has an adapter, which lists no models.", "name")
        if state.blocked_reason is not None:
            raise bad_request(f"'{name}' takes no call: {state.blocked_reason}.", "name")
        base_url, headers, secrets = self.places.way_outside(self.places.with_key(state.pool))
        target = Target(
            f"{base_url}/models", headers, b"", secrets, outside=True, patience=PATIENCE
        )
        try:
            return read_models(await self.upstream.document(target))
        except UpstreamError as failed:
            fault = failed.fault or Fault(None, str(failed))
            words = f"status {fault.status}" if fault.status else str(failed)
            message = f"{row.base_url} lists no models: {words}."
            raise bad_request(message, "name") from failed

    async def _check(self, name: str, key: str | None) -> PoolCheck:
        state, models = self.fleet.state(name), self.catalog.catalog.models
        if state is None or state.pool.model not in models or not state.pool.is_external:
            raise bad_request(f"'{name}' is no external pool: its own replicas serve it.", "name")
        if state.blocked_reason is not None:
            return PoolCheck(NOT_SET_UP, state.blocked_reason)
        call = cheap_call(models[state.pool.model].task)
        pool = self.places.with_key(state.pool, key)
        target = self.places.outside_target(pool, call, OUTPUT_TOKENS, PATIENCE)
        return await check(self.upstream, target, self.clock)


async def pools_of(request: Request) -> PoolService:
    parts = parts_of(request)
    return PoolService(
        store=admin_store(parts),
        rules=parts.settings.gateway.external_rules,
        refresh=parts.catalog.refresh,
        why_blocked=parts.fleet.why_blocked,
        nodes=parts.settings.nodes,
        mixes=parts.settings.mixes,
    )


Pools = Annotated[PoolService, Depends(pools_of)]


async def orderer_of(request: Request, pools: Pools) -> PoolOrderer:
    return PoolOrderer(pools, PoolOrders(parts_of(request).redis))


Orderer = Annotated[PoolOrderer, Depends(orderer_of)]


async def checker_of(request: Request, pools: Pools) -> PoolChecker:
    parts = parts_of(request)
    return PoolChecker(
        pools=pools,
        fleet=parts.fleet,
        catalog=parts.catalog,
        places=parts.places,
        upstream=parts.upstream,
        clock=parts.outside.clock,
    )


Checker = Annotated[PoolChecker, Depends(checker_of)]
