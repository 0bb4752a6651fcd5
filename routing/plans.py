"""What a rule and an entitlement come to at each pool: rulings, and a score as a few numbers.

The score of a pool is its whole price in nano-USD: what the call costs us, and what the rule says
that waiting, quality and a lost spot replica are worth. It is linear in the tokens of a call and in
its wait, so that a call is weighed by four products. Owns what is kept from call to
call, which changes no decision.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from routing.cost import Terms, factor_at, list_prompt_nanousd, terms_of
from routing.filters import (
    Ruling,
    is_affordable,
    may_run,
    refuses_slow_starts,
    standing_ruling,
    targets_of,
    validated_quality,
)
from routing.policy.action import Action
from routing.quality.model import log_odds, variant_name
from routing.types import Leave, Model, Pool, PoolHealth, PoolState

PLANS_MAX: Final = 256


class Line(NamedTuple):
    """`fixed + P * prompt + O * output + W * wait` nano-USD, of a call with P prompt and O output
    tokens that waits W seconds."""

    fixed: float = 0.0
    prompt: float = 0.0
    output: float = 0.0
    wait: float = 0.0

    def at(self, prompt_tokens: float, output_tokens: float, wait_s: float) -> float:
        fixed, prompt, output, wait = self
        return fixed + (prompt * prompt_tokens + output * output_tokens) + wait * wait_s


class LostWork(NamedTuple):
    """What a call costs and a spot replica that is lost takes with it: a chance that grows with the
    time that the call is there, times a cost. It is no line."""

    fixed_chance: float
    prompt_chance: float
    output_chance: float
    prompt_nanousd: float
    output_nanousd: float

    def at(self, prompt_tokens: float, output_tokens: float) -> float:
        fixed, prompt, output, prompt_nanousd, output_nanousd = self
        chance = fixed + prompt * prompt_tokens + output * output_tokens
        return chance * (prompt_nanousd * prompt_tokens + output_nanousd * output_tokens)


class Score(NamedTuple):
    """The terms of the sum."""

    run: Line
    start: Line
    wait: Line
    quality: Line
    risk: Line


@dataclass(slots=True)
class Weights:
    """A pool in one state, as a plan sees it. As `Terms` made to be read often."""

    state: PoolState
    terms: Terms
    score: Score
    total: Line
    quality: float
    """Of the table, whatever the prompt."""
    log_odds: float | None
    """Of that quality; None where no prompt moves it."""
    step_nanousd: int
    name: str
    model: str
    variant: str
    """With its model, as judged answers name it."""
    window: int
    against: Ruling | None
    """Whatever the call."""
    stopped: Ruling | None
    """As long as it is in this state."""
    rank: int
    """Its place in the rule's `order`."""
    lost_work: "LostWork | None"
    """None where nothing is lost, or in a record of an older release."""
    latency_bounds: tuple[tuple[float, float], ...]
    """Factors of the expected time to the first token, and the most seconds for each."""
    health: PoolHealth | None
    """None: no breaker has anything against it."""


class Plan:
    """A rule's action and an entitlement. It keeps what it found out of each pool until the pool is
    in another state."""

    def __init__(self, action: Action, leave: Leave) -> None:
        start = action.cold_start
        self.action = action
        self.leave = leave
        self.start_s_max = inf if start is None else start.max_wait_s
        self.refuses_slow_starts = refuses_slow_starts(action)
        self.ranks = {target: at for at, target in reversed([*enumerate(action.order)])}
        self.known: dict[str, Weights] = {}

    def learn(self, state: PoolState, model: Model) -> Weights:
        pool, terms, action = state.pool, terms_of(state), self.action
        quality = _quality(pool, model, action)
        score = _score(terms, action, quality)
        priced = is_affordable(action, list_prompt_nanousd(terms), terms.output_nanousd)
        weights = Weights(
            state=state,
            terms=terms,
            score=score,
            total=Line(*map(sum, zip(*score, strict=True))),
            quality=quality,
            log_odds=log_odds(quality) if 0 < quality < 1 else None,
            step_nanousd=action.quality_nanousd_per_step,
            name=pool.name,
            model=pool.model,
            variant=variant_name(pool.model, pool.variant),
            window=pool.context_tokens(model),
            against=standing_ruling(pool, action, self.leave) or priced,
            stopped=may_run(state),
            rank=self._rank(pool),
            lost_work=_lost_work(terms) if terms.loses_work else None,
            latency_bounds=_latency_bounds(terms, action),
            health=state.health,
        )
        self.known[pool.name] = weights
        return weights

    def _rank(self, pool: Pool) -> int:
        if not self.ranks:
            return 0
        last = len(self.ranks)
        return min(self.ranks.get(target, last) for target in targets_of(pool))


class Plans:
    """Plans by action and entitlement, for one set of models; the one used longest ago goes first.
    Whoever decides with kept plans decides as without."""

    def __init__(self) -> None:
        self._models: Mapping[str, Model] = {}
        self._plans: OrderedDict[tuple[int, Leave], Plan] = OrderedDict()

    def plan(self, action: Action, leave: Leave, models: Mapping[str, Model]) -> Plan:
        if models is not self._models:
            self._models = models
            self._plans.clear()
        key = (id(action), leave)  # the plan keeps its action, so that no other one has this id
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = Plan(action, leave)
            if len(self._plans) > PLANS_MAX:
                self._plans.popitem(last=False)
        else:
            self._plans.move_to_end(key)
        return plan


def _lost_work(terms: Terms) -> LostWork:
    """Half of a call is done on average when its replica is lost."""
    per_s = terms.losses_per_s / 2
    return LostWork(
        per_s * terms.first_fixed_s,
        per_s * terms.first_s_per_token,
        per_s * terms.step_s,
        terms.prompt_nanousd,
        terms.output_nanousd,
    )


def _score(terms: Terms, action: Action, quality: float) -> Score:
    """The expected loss of a spot replica is for the time that the call is there. What the call
    costs and is lost with it is no line, and is added where the call is weighed. Of units, one is
    reckoned with, for all that differs between pools is what one costs."""
    first_s, token_s, step_s = terms.first_fixed_s, terms.first_s_per_token, terms.step_s
    second = action.wait_nanousd_per_s
    loss = terms.losses_per_s * action.spot_loss_nanousd
    unit = terms.pool.cost_nanousd_per_unit if terms.pool.is_external else 0
    return Score(
        run=Line(float(unit), terms.prompt_nanousd, terms.output_nanousd),
        start=Line(terms.start_nanousd),
        wait=Line(second * first_s, second * token_s, 0.0, second),
        quality=Line((1 - quality) * action.quality_nanousd_per_step),
        risk=Line(loss * first_s, loss * token_s, loss * step_s),
    )


def _quality(pool: Pool, model: Model, action: Action) -> float:
    """What was validated for the rule's use case, else what the model was declared to have."""
    validated = None if action.use_case is None else validated_quality(pool, action)
    return model.quality if validated is None else validated


def _latency_bounds(terms: Terms, action: Action) -> tuple[tuple[float, float], ...]:
    if action.preferred_max_latency is None:
        return ()
    bounds = action.preferred_max_latency.ttft_s_by_quantile
    return tuple([(factor_at(terms, quantile), most_s) for quantile, most_s in bounds])
