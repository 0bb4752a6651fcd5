"""`/console/catalogue`: what can serve, on what, how good it is and what it costs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from sqlalchemy.exc import SQLAlchemyError

from gateway.admin.pools.schemas import PoolAnswer
from gateway.admin.pools.service import Pools, PoolService
from gateway.admin.variants.service import Variants, VariantService
from gateway.api.pages import LIMIT_MAX, PageRequest
from gateway.catalog.fit import variant_of
from gateway.catalog.tables import VariantRow
from gateway.console.context import ConsoleContext, context_of
from gateway.console.login import door_of, is_signed_in
from gateway.console.pages.catalogue.calibrations import CalibrationView, calibration_views
from gateway.console.pages.catalogue.hardware import HardwareList, hardware_list
from gateway.console.pages.catalogue.models import ModelView, model_views
from gateway.console.pages.catalogue.pools import CataloguePool, catalogue_pools
from gateway.console.pages.catalogue.variants import VariantView, variant_views
from gateway.console.render import page
from gateway.speeds.pool_speeds import speeds_of
from routing.types import Model
from routing.variants import Variant

router = APIRouter(prefix="/console", include_in_schema=False)

FIRST_ROWS = PageRequest(limit=LIMIT_MAX, after=None)


@dataclass(frozen=True, slots=True)
class CatalogueView:
    models: tuple[ModelView, ...]
    pools: tuple[CataloguePool, ...]
    variants: tuple[VariantView, ...]
    calibrations: tuple[CalibrationView, ...]
    hardware: HardwareList
    rows_max: int
    is_cut: bool
    """There are more pools or variants than one page has."""


@router.get("/catalogue")
async def catalogue(request: Request, pools: Pools, variants: Variants) -> Response:
    if not await is_signed_in(request):
        return door_of(request)
    try:
        return page("catalogue.html", view=await _look(context_of(request), pools, variants))
    except SQLAlchemyError:
        return page("away.html", 503, title="Catalogue")


async def _look(
    desk: ConsoleContext, pools: PoolService, variants: VariantService
) -> CatalogueView:
    pool_page = await pools.page(FIRST_ROWS)
    variant_page = await variants.store.page(FIRST_ROWS, VariantRow)
    known = desk.parts.catalog.catalog
    declared = _declared(variant_page.data, known.models)
    states = desk.parts.fleet.snapshot().pools
    speeds = {state.pool.name: speeds_of(state, desk.parts.learner) for state in states}
    enabled = [pool for pool in pool_page.data if pool.enabled]
    return CatalogueView(
        models=model_views(list(known.models.values()), known.counters, _by_model(enabled)),
        pools=catalogue_pools(enabled, speeds, now_us=desk.now_us),
        variants=variant_views(declared, _by_variant(enabled)),
        calibrations=calibration_views(list(speeds.values())),
        hardware=hardware_list(list(known.hardware.values()), _by_hardware(enabled)),
        rows_max=LIMIT_MAX,
        is_cut=pool_page.has_more or variant_page.has_more,
    )


def _declared(rows: Sequence[VariantRow], models: Mapping[str, Model]) -> list[Variant]:
    declared = [row for row in rows if row.enabled and row.model in models]
    return [variant_of(row, models[row.model].context_tokens) for row in declared]


def _by_model(pools: Sequence[PoolAnswer]) -> Mapping[str, list[str]]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    for pool in pools:
        names[pool.model].append(pool.name)
    return names


def _by_variant(pools: Sequence[PoolAnswer]) -> Mapping[tuple[str, str], list[str]]:
    names: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for pool in pools:
        names[pool.model, pool.variant].append(pool.name)
    return names


def _by_hardware(pools: Sequence[PoolAnswer]) -> Mapping[str, list[str]]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    for pool in pools:
        if pool.hardware is not None:
            names[pool.hardware].append(pool.name)
    return names
