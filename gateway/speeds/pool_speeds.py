"""What is known of a pool's speed and of what its tokens cost us, for people. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from gateway.speeds.learner import Learner
from routing.cost import TOKENS_PER_MTOK
from routing.economics.calibration import Calibration
from routing.economics.targets import target_of
from routing.types import Pool, PoolState

HOUR_S = 3600


class Basis(StrEnum):
    """What speeds and costs are computed from."""

    OBSERVED = "observed"
    ROOFLINE = "roofline"
    GUESS = "guess"


@dataclass(frozen=True, slots=True)
class PoolSpeeds:
    """`first_token`, `step` and `busy` are None where nothing was learned of the pool's kind."""

    pool: Pool
    target: str
    basis: Basis
    first_token: Calibration | None
    step: Calibration | None
    busy: Calibration | None
    cost_input_nanousd_per_mtok: int
    cost_output_nanousd_per_mtok: int
    calls_per_start: float | None = None
    """None where a replica is there, or none is ever started."""
    losses_per_hour: float | None = None
    kept_share: float | None = None
    cached_share: float | None = None


def speeds_of(state: PoolState, learner: Learner) -> PoolSpeeds:
    pool, name = state.pool, target_of(state.pool)
    target = learner.predictor.targets.get(name)
    if target is not None and target.first.taken:
        basis = Basis.OBSERVED
    else:
        basis = Basis.GUESS if target is None else Basis.ROOFLINE
    cost_input, cost_output = _costs_per_mtok(state)
    return PoolSpeeds(
        pool,
        name,
        basis,
        target.first if target else None,
        target.step if target else None,
        target.busy if target else None,
        cost_input,
        cost_output,
        calls_per_start=None if pool.is_external or state.is_paid_for else state.calls_per_start,
        losses_per_hour=None if state.losses_per_s is None else state.losses_per_s * HOUR_S,
        kept_share=state.kept_share if pool.is_external else None,
        cached_share=state.cached_share if pool.is_external else None,
    )


def _costs_per_mtok(state: PoolState) -> tuple[int, int]:
    """By the price list of a server outside, else by the seconds of a replica."""
    pool, speeds = state.pool, state.speeds
    if pool.is_external:
        return pool.cost_input_nanousd_per_mtok, pool.cost_output_nanousd_per_mtok
    per_s = pool.cost_nanousd_per_s * TOKENS_PER_MTOK
    return round(per_s * speeds.prompt_busy_s), round(per_s * speeds.busy_s_per_token)
