"""Which way of buying capacity a model's traffic calls for: serverless, dedicated or bare metal.

A replica that always has `batch` calls serves `batch / T` of them a second, where each is there for
T = prefill * (1 + batch) + output * step(batch): its own prompt, the prompts of its neighbours, and
its steps. Little's law turns traffic into calls at once. Capacity is planned with HEADROOM to spare
in the busiest hour. Pure arithmetic: seconds, USD, tokens.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, exp
from statistics import median
from typing import NamedTuple

from routing.economics.predictor import TargetFits
from routing.economics.roofline import HOUR_S
from routing.economics.targets import line_of
from routing.hardware.catalogue import Hardware, PriceKind, shipped
from routing.speeds import guessed_speeds
from routing.types import Offer, Pool

DAY_S = 24 * HOUR_S
MONTH_H = 730.0
"""A twelfth of a year."""
HEADROOM = 0.7
"""The share of what replicas can serve that is planned for: beyond it queues grow quickly."""
PEAK = 2.0
"""The busiest hour has so many times the mean, where nobody measured."""
LITTLE_STEPS = 60
REQUESTS_MOST = 1e9
"""A day: beyond, no break-even is looked for."""
SCAN = 1.1


class Traffic(NamedTuple):
    """`peak`: times the mean that the busiest hour has."""

    requests_per_day: float
    input_tokens: float
    output_tokens: float
    peak: float = PEAK

    @property
    def per_s(self) -> float:
        return self.requests_per_day / DAY_S


class ReplicaPrice(NamedTuple):
    """Of one replica for an hour, as it is sold: `replicas_sold` together. `source` says whose
    figure it is."""

    usd_h: float
    replicas_sold: int
    source: str


@dataclass(frozen=True, slots=True)
class Setup:
    """One pool's way to serve a model. `step_s` is by calls at once and their tokens together;
    `kv_tokens` is the room for those, where it is known."""

    pool: str
    calls_most: int
    prefill_s: Callable[[float], float]
    step_s: Callable[[float, float], float]
    prices: Mapping[Offer, ReplicaPrice]
    kv_tokens: int | None = None

    def batch_most(self, traffic: Traffic) -> int:
        """Calls at once: each has its prompt and, on average, half of its answer."""
        if self.kv_tokens is None:
            return self.calls_most
        each = max(1.0, traffic.input_tokens + traffic.output_tokens / 2)
        return max(1, min(self.calls_most, int(self.kv_tokens / each)))

    def stay_s(self, batch: float, traffic: Traffic) -> float:
        """How long a call is there beside so many."""
        context = batch * (traffic.input_tokens + traffic.output_tokens / 2)
        prefill_s = self.prefill_s(traffic.input_tokens)
        return prefill_s * (1 + batch) + traffic.output_tokens * self.step_s(batch, context)

    def per_s_most(self, traffic: Traffic) -> float:
        """Calls a second that one replica is planned to serve."""
        batch = self.batch_most(traffic)
        return HEADROOM * batch / self.stay_s(batch, traffic)

    def busy_replicas(self, traffic: Traffic) -> float:
        """Replicas that compute, on average. Calls that come by chance find one at work already,
        whose steps they share: of n on average at once, none is there in exp(-n) of the time."""
        at_once, most = 0.0, self.batch_most(traffic)
        for _ in range(LITTLE_STEPS):
            at_once = min(most, traffic.per_s * self.stay_s(max(1, at_once), traffic))
        return max(1 - exp(-at_once), traffic.per_s / self.per_s_most(traffic))


class MonthCost(NamedTuple):
    """`replicas` are those that run on average (serverless), or are paid all the time."""

    offer: Offer
    usd_month: float
    pool: str
    replicas: float
    source: str


class BreakEven(NamedTuple):
    """From so many requests a day on `dear` costs no more than `cheap`, at the same lengths."""

    cheap: Offer
    dear: Offer
    requests_per_day: float


def month_cost(setup: Setup, offer: Offer, traffic: Traffic) -> MonthCost | None:
    """None where no price is known."""
    price = setup.prices.get(offer)
    if price is None:
        return None
    if offer is Offer.SERVERLESS:
        replicas = setup.busy_replicas(traffic)
    else:
        needed = max(1, ceil(traffic.per_s * traffic.peak / setup.per_s_most(traffic)))
        replicas = float(ceil(needed / price.replicas_sold) * price.replicas_sold)
    return MonthCost(offer, replicas * price.usd_h * MONTH_H, setup.pool, replicas, price.source)


def offers(setups: Sequence[Setup], traffic: Traffic) -> list[MonthCost]:
    """Of each offer the cheapest set-up, in the order of `Offer`."""
    rows = []
    for offer in Offer:
        costs = [month_cost(setup, offer, traffic) for setup in setups]
        priced = [cost for cost in costs if cost is not None]
        if priced:
            rows.append(min(priced, key=lambda cost: cost.usd_month))
    return rows


def break_evens(setups: Sequence[Setup], traffic: Traffic) -> Iterator[BreakEven]:
    """Of each pair of offers the first number of requests a day at which the more committed one
    costs no more than the other. None is told of a pair that has no such number."""
    kinds = list(Offer)
    for index, cheap in enumerate(kinds):
        for dear in kinds[index + 1 :]:
            requests = _crossing(setups, cheap, dear, traffic)
            if requests is not None:
                yield BreakEven(cheap, dear, requests)


def _crossing(setups: Sequence[Setup], cheap: Offer, dear: Offer, traffic: Traffic) -> float | None:
    def pays(requests: float) -> bool:
        by_offer = {
            cost.offer: cost.usd_month
            for cost in offers(setups, traffic._replace(requests_per_day=requests))
        }
        return dear in by_offer and cheap in by_offer and by_offer[dear] <= by_offer[cheap]

    below, above = 0.0, 1.0
    while not pays(above):
        below, above = above, above * SCAN
        if above > REQUESTS_MOST:
            return None
    while above - below > 1e-3 * above:
        middle = (below + above) / 2
        below, above = (below, middle) if pays(middle) else (middle, above)
    return above


# --- what a set-up is made of --------------------------------------------------------------------


def setup_of(pool: Pool, fits: TargetFits | None) -> Setup | None:
    """Of an own pool; `fits`: what was learned of its kind, or its roofline. None where a context
    does not fit, or no price of a replica is known."""
    line = line_of(pool)
    prices = _prices(pool)
    if pool.is_external or not prices or (line is not None and not line.kv_capacity_tokens):
        return None
    fits = fits or (TargetFits(line) if line else None)
    if fits is None:
        guess = guessed_speeds(pool.max_ongoing)
        return Setup(
            pool.name,
            pool.max_ongoing,
            lambda tokens: tokens * guess.first_s_per_token,
            lambda _batch, _context: guess.step_s,
            prices,
        )
    speeds = fits
    return Setup(
        pool.name,
        pool.max_ongoing,
        speeds.prefill_s,
        lambda batch, context: speeds.step.predict_s(speeds.step_ceilings(batch, context)),
        prices,
        line.kv_capacity_tokens if line else None,
    )


def _prices(pool: Pool) -> dict[Offer, ReplicaPrice]:
    """As the pool says of its own offer, as the catalogue says of its hardware, else by what the
    catalogue's parts cost one way for each dollar of another."""
    part = pool.part
    prices = {}
    if part is not None:
        prices = {offer: price for offer in Offer if (price := _quoted(part, offer, pool.gpus))}
    if pool.cost_nanousd_per_s:
        usd_h = pool.cost_nanousd_per_s * HOUR_S / 1e9
        sold = _replicas_sold(part, pool.gpus) if pool.offer is Offer.BARE_METAL else 1
        prices[pool.offer] = ReplicaPrice(usd_h, sold, f"the pool {pool.name}")
    prices_by_model = dict(prices)
    for offer in Offer:
        if offer not in prices_by_model and prices_by_model:
            basis, price = next(iter(prices_by_model.items()))
            times = ratio(offer) / ratio(basis)
            words = f"{times:.2f} times {basis.value}, as parts of the catalogue cost on average"
            prices[offer] = ReplicaPrice(price.usd_h * times, 1, words)
    return prices


def _quoted(part: Hardware, offer: Offer, gpus: int) -> ReplicaPrice | None:
    price = part.price(PriceKind(offer.value))
    if price is None:
        return None
    sold = _replicas_sold(part, gpus) if offer is Offer.BARE_METAL else 1
    return ReplicaPrice(price.middle_usd_h * gpus, sold, price.source)


def _replicas_sold(part: Hardware | None, gpus: int) -> int:
    """Of whole servers."""
    server = part.gpus_server if part else None
    return max(1, int(server.value) // gpus) if server else 1


@cache
def ratio(offer: Offer) -> float:
    """What an hour costs this way for each dollar of serverless: the median of the shipped parts
    that quote both."""
    pairs = [
        (part.price(PriceKind.SERVERLESS), part.price(PriceKind(offer.value)))
        for part in shipped().values()
    ]
    return median([other.usd_h / one.usd_h for one, other in pairs if one and other])
