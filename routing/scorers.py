"""What each choice is worth, in one currency: nano-USD.

A tier puts a price on a second of waiting, on a lower quality and on the risk of losing a spot
replica; so waiting, bursting and buying are compared by adding up, and the sum explains itself.
"""

from dataclasses import dataclass
from typing import NamedTuple

from routing import cost
from routing.filters import Weighed
from routing.types import CapacityClass


@dataclass(frozen=True, slots=True)
class TierRule:
    """One tier's prices; all in nano-USD. `deadline_s` is the tier's default deadline."""

    wait_nanousd_per_s: int
    quality_nanousd_per_token: int
    """Price of a full step of quality, from 1 to 0, for each output token."""
    spot_risk_nanousd: int
    deadline_s: float


TERMS = ("run", "start", "wait", "quality", "risk")


class Score(NamedTuple):
    """The terms of the sum, named as in `TERMS`."""

    run_nanousd: int
    start_nanousd: int
    wait_nanousd: int
    quality_nanousd: int
    risk_nanousd: int

    @property
    def total_nanousd(self) -> int:
        return sum(self)

    @property
    def cost_nanousd(self) -> int:
        return self.run_nanousd + self.start_nanousd

    def words(self) -> str:
        """The sum in words, largest terms as they are: `run 1200 + wait 0 + ...` nano-USD."""
        parts = [f"{name} {value}" for name, value in zip(TERMS, self, strict=True) if value]
        return " + ".join(parts) or "free"


def score(weighed: Weighed, rule: TierRule) -> Score:
    """Price this pool for this call under this tier's rule."""
    pool = weighed.state.pool
    output_tokens = cost.expected_output_tokens(weighed.call)
    prompt_tokens = weighed.call.prompt_tokens[weighed.model.name]
    is_spot = pool.capacity_class is CapacityClass.SPOT
    return Score(
        run_nanousd=cost.run_cost_nanousd(pool, prompt_tokens, output_tokens),
        start_nanousd=cost.start_cost_nanousd(weighed.state),
        wait_nanousd=round(weighed.wait_s * rule.wait_nanousd_per_s),
        quality_nanousd=round(
            (1 - weighed.model.quality) * rule.quality_nanousd_per_token * output_tokens
        ),
        risk_nanousd=rule.spot_risk_nanousd if is_spot else 0,
    )
