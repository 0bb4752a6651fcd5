"""What is known of a pool's speed and of what its tokens cost us, for people. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from gateway.speeds.learner import Learner
from routing.cost import TOKENS_PER_MTOK
from routing.economics.calibration import Calibration
from routing.economics.targets import target_of
from routing.types import Pool, PoolState


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
    )


def _costs_per_mtok(state: PoolState) -> tuple[int, int]:
    """By the price list of a server outside, else by the seconds of a replica."""
    pool, speeds = state.pool, state.speeds
    if pool.is_external:
        return pool.cost_input_nanousd_per_mtok, pool.cost_output_nanousd_per_mtok
    per_s = pool.cost_nanousd_per_s * TOKENS_PER_MTOK
    return round(per_s * speeds.prompt_busy_s), round(per_s * speeds.busy_s_per_token)
