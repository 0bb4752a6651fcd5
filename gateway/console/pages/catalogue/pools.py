"""Pools as they are declared and priced, as the catalogue shows them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gateway.admin.pools.schemas import PoolAnswer
from gateway.console.formatting import DisplayTime, Money, about_usd, capacity_words, instant, money
from gateway.instants import instant_us
from gateway.speeds.pool_speeds import Basis, PoolSpeeds
from routing.types import SIMULATED, Pool

HOUR_S = 3600
BASES = {
    Basis.OBSERVED: "as observed",
    Basis.ROOFLINE: "by its roofline",
    Basis.GUESS: "by guessed speeds",
}


@dataclass(frozen=True, slots=True)
class CataloguePool:
    name: str
    capacity_class: str
    offer: str
    model: str
    variant: str
    is_declared: bool
    """Whether its variant is in the catalogue; else the name is a label that says no more."""
    hardware: str
    place: str
    privacy: str
    replicas: str
    is_external: bool
    per_hour: Money | None
    """Of a replica; None for an external server, which costs by the token."""
    per_mtok: tuple[str, str] | None
    """USD for a million tokens in and out. None where this gateway does not use it."""
    cached_per_mtok: str
    """The same of tokens that a server outside has cached. Empty where they cost as others."""
    basis: str
    """What that is computed from."""
    next_price: DisplayTime | None
    blocked: str


def catalogue_pools(
    declared: Sequence[PoolAnswer], speeds: Mapping[str, PoolSpeeds], *, now_us: int
) -> tuple[CataloguePool, ...]:
    """`speeds` are those of the pools that this gateway decides among, at the prices of now."""
    ordered = sorted(declared, key=lambda pool: pool.name)
    return tuple([_row(pool, speeds.get(pool.name), now_us) for pool in ordered])


def _row(pool: PoolAnswer, speeds: PoolSpeeds | None, now_us: int) -> CataloguePool:
    is_external, running = pool.base_url is not None, None if speeds is None else speeds.pool
    costs = running or pool
    starts_us = [instant_us(price.starts_at) for price in pool.prices]
    cached = costs.cost_cached_input_nanousd_per_mtok
    coming_us = min((each for each in starts_us if each > now_us), default=None)
    return CataloguePool(
        name=pool.name,
        capacity_class=capacity_words(pool.capacity_class, pool.engine == SIMULATED),
        offer=pool.offer.replace("_", " "),
        model=pool.model,
        variant=pool.upstream_model or pool.variant,
        is_declared=running is not None and running.declared is not None,
        hardware=_hardware(pool, running),
        place=", ".join(filter(None, (pool.region, pool.zone, pool.provider))),
        privacy=_privacy(pool) if is_external else "keeps nothing",
        replicas="" if is_external else _bounds(pool),
        per_hour=None if is_external else money(costs.cost_nanousd_per_s * HOUR_S),
        is_external=is_external,
        per_mtok=None if speeds is None else _per_mtok(speeds),
        cached_per_mtok="" if cached is None else about_usd(cached),
        basis="" if speeds is None else "its price list" if is_external else BASES[speeds.basis],
        next_price=None if coming_us is None else instant(coming_us, now_us),
        blocked=pool.blocked or ("" if running else "not in use by this gateway"),
    )


def _per_mtok(speeds: PoolSpeeds) -> tuple[str, str]:
    cost_input, cost_output = (
        speeds.cost_input_nanousd_per_mtok,
        speeds.cost_output_nanousd_per_mtok,
    )
    return about_usd(cost_input), about_usd(cost_output)


def _hardware(pool: PoolAnswer, running: Pool | None) -> str:
    if pool.hardware is None:
        return ""
    gpus = running.gpus if running else pool.gpus_per_replica or 1
    return f"{gpus} \N{MULTIPLICATION SIGN} {pool.hardware}"


def _privacy(pool: PoolAnswer) -> str:
    if pool.retention_days is None:
        kept = "nobody knows how long prompts are kept"
    else:
        kept = f"keeps prompts {pool.retention_days} days" if pool.retention_days else "keeps none"
    trains = {None: "nobody knows if it trains", True: "trains on prompts", False: "never trains"}
    return f"{kept}, {trains[pool.trains]}"


def _bounds(pool: PoolAnswer) -> str:
    if pool.min_replicas == pool.max_replicas:
        return str(pool.max_replicas)
    return f"{pool.min_replicas} to {pool.max_replicas}"
