"""`/admin/v1/pools`, and the live fleet that they are of."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request

from billing.written_usd import notices
from gateway.admin.pools.fleet import fleet_pools
from gateway.admin.pools.schemas import (
    FleetAnswer,
    PoolAnswer,
    PoolBody,
    PoolCheckAnswer,
    PoolOrderAnswer,
    ServedModelAnswer,
    SleepBody,
    WakeBody,
)
from gateway.admin.pools.service import Checker, Orderer, Pools
from gateway.api.dependencies import parts_of
from gateway.api.pages import Paged
from gateway.api.schemas import Listing, Page
from gateway.catalog.pool import PoolName

log = logging.getLogger(__name__)
router = APIRouter(tags=["pools"])

ONE = WakeBody()
SLEEPING = SleepBody()


@router.get("/pools", response_model=Page[PoolAnswer])
async def list_pools(pools: Pools, page: Paged) -> Any:
    return await pools.page(page)


@router.put("/pools/{name}", response_model=PoolAnswer)
async def put_pool(request: Request, pools: Pools, name: PoolName, body: PoolBody) -> Any:
    _log_names_of_before(name, await request.json())
    return pools.answer(await pools.put(name, body))


@router.patch("/pools/{name}", response_model=PoolAnswer)
async def change_pool(pools: Pools, name: PoolName, changes: dict[str, Any]) -> Any:
    """Some fields of a pool; what is left out stays as it is, where PUT takes its default."""
    _log_names_of_before(name, changes)
    return pools.answer(await pools.change(name, changes))


@router.delete("/pools/{name}", response_model=PoolAnswer)
async def disable_pool(pools: Pools, name: PoolName) -> Any:
    return pools.answer(await pools.disable(name))


@router.post("/pools/{name}/check", response_model=PoolCheckAnswer)
async def check_pool(checker: Checker, name: PoolName) -> Any:
    """Makes one cheap call of an external pool and tells what came; no tenant pays for it. `ok`
    says whether the pool can serve."""
    return await checker.check(name)


@router.get("/pools/{name}/models", response_model=Listing[ServedModelAnswer])
async def list_models_of_pool(checker: Checker, name: PoolName) -> Any:
    """What the server of an external pool says that it serves: names for `upstream_model`. 400
    where it says nothing of the kind."""
    return {"data": await checker.models(name)}


@router.post("/pools/{name}/wake", status_code=202, response_model=PoolOrderAnswer)
async def wake_pool(orderer: Orderer, name: PoolName, body: WakeBody = ONE) -> Any:
    """Have so many replicas at least, as if callers waited for them. They go by the usual rules."""
    return await orderer.wake(name, body.replicas)


@router.post("/pools/{name}/sleep", status_code=202, response_model=PoolOrderAnswer)
async def put_pool_to_sleep(orderer: Orderer, name: PoolName, body: SleepBody = SLEEPING) -> Any:
    """Let the replicas sleep, or have none. Calls in flight finish, and the next call wakes the
    pool. 409 where `min_replicas` keeps one."""
    return await orderer.sleep(name, body.to)


@router.get("/fleet", response_model=FleetAnswer)
async def show_fleet(request: Request) -> Any:
    """Pools with replica states and reasons, this gateway's open calls, and its staleness."""
    parts = parts_of(request)
    load = {
        "open_calls": len(parts.accounts.open),
        "unsettled_calls": parts.accounts.unsettled_count,
        "in_flight": parts.fleet.in_flight,
    }
    age_s = round(parts.fleet.age_s, 3)
    return {
        "age_s": age_s,
        "is_stale": parts.fleet.is_stale,
        "controller": parts.fleet.leader.id,
        "epoch": parts.fleet.leader.epoch,
        "spares": parts.fleet.spares,
        "pools": fleet_pools(parts.fleet, parts.breakers, parts.catalog.catalog.keys_of),
        "gateway": load,
    }


def _log_names_of_before(pool: str, fields: Mapping[str, Any]) -> None:
    for words in notices(fields):
        log.warning("pool %s: %s", pool, words)
