"""What a call costs, from the price book as the API tells it. Standard library only.

A record is a dict as `/v1/generations` answers it. Amounts are nano-USD, prices nano-USD for a
million units. Each component is rounded once, half to even.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

MILLION = 1_000_000
PROMPT = ("input", "cached_input", "cache_write", "audio_input", "image_input")
ANSWER = ("output", "reasoning", "audio_output", "image_output")
TOKENS = (*PROMPT, *ANSWER)
OWN = tuple(each for each in TOKENS if each not in ("input", "cached_input", "output"))
"""Counted with input or with output, unless they have a price of their own."""

Json = Mapping[str, Any]
Prices = dict[str, int]
Key = tuple[str, str, bool]


@dataclass(frozen=True, slots=True)
class Part:
    """What one component of a call comes to."""

    component: str
    units: int
    unit_price: int
    amount: int


@dataclass(frozen=True, slots=True)
class Step:
    """The prices of calls with at least so long a prompt."""

    prompt_from: int
    prices: Prices
    gpu_ms_max: int


def nano(text: str) -> int:
    exact = Decimal(text) * 1_000_000_000
    assert exact == int(exact), text
    return int(exact)


def half_even(dividend: int, divisor: int) -> int:
    whole, rest = divmod(dividend, divisor)
    return whole + (2 * rest > divisor or (2 * rest == divisor and whole % 2))


class PriceList:
    """Versions of `/admin/v1/prices`, everybody's and those of one organization."""

    def __init__(self, versions: Sequence[Json], organization: str) -> None:
        active = [each for each in versions if each["status"] == "active"]
        active.sort(key=lambda each: str(each["effective_from"]))
        self._everybodys = [each for each in active if each["organization"] is None]
        self._own = [each for each in active if each["organization"] == organization]
        self._steps: dict[tuple[str, Key], list[Step]] = {}

    def version_at(self, at: str) -> str:
        """What calls have frozen that are admitted at an instant."""
        everybodys, own = _in_force(self._everybodys, at), _in_force(self._own, at)
        assert everybodys is not None, at
        return f"{everybodys['id']}+{own['id']}" if own else str(everybodys["id"])

    def parts(self, record: Json) -> list[Part]:
        """All components that a call is charged, the minimum last; none where it used nothing."""
        used: dict[str, Any] = record["usage"]
        if not any(used.get(each, 0) for each in (*TOKENS, "units")):
            return []
        step = self._step(record, sum(used.get(each, 0) for each in PROMPT))
        parts = [
            Part(component, units, price, half_even(units * price, MILLION))
            for component, units, price in _units(used, step)
        ]
        least = step.prices.get("minimum", 0)
        lacking = half_even(least, MILLION) - sum(part.amount for part in parts)
        return [*parts, Part("minimum", 1, least, max(lacking, 0))] if least else parts

    def _step(self, record: Json, prompt: int) -> Step:
        version, key = record["price_version"], (record["model"], record["service_tier"])
        place = (version, (*key, record["batch"]))
        if place not in self._steps:
            self._steps[place] = list(self._of_version(*place))
        return [each for each in self._steps[place] if each.prompt_from <= prompt][-1]

    def _of_version(self, version: str, key: Key) -> Iterator[Step]:
        """Of an organization its own where it has them, else everybody's with its discounts."""
        everybodys_id, _, own_id = version.partition("+")
        (everybodys,) = [each for each in self._everybodys if each["id"] == everybodys_id]
        own = next((each for each in self._own if each["id"] == own_id), None)
        agreed = _rates(own, key) if own else []
        off = 0 if agreed or not own else _discount(own, key[0])
        prices: Prices = {}
        gpu_ms_max = 0
        rates = agreed or _rates(everybodys, key)
        for prompt_from in sorted({rate["prompt_from_tokens"] for rate in rates}):
            for rate in rates:
                if rate["prompt_from_tokens"] == prompt_from:
                    price = half_even(nano(rate["usd_per_mtok"]) * (10_000 - off), 10_000)
                    prices[rate["component"]] = price
                    gpu_ms_max = rate["units_max"] or gpu_ms_max
            yield Step(prompt_from, dict(prices), gpu_ms_max)


def _in_force(versions: Sequence[Json], at: str) -> Json | None:
    begun = [each for each in versions if each["effective_from"] <= at]
    return begun[-1] if begun else None


def _rates(version: Json, key: Key) -> list[Json]:
    names = ("model", "tier", "batch")
    return [rate for rate in version["rates"] if tuple(rate[name] for name in names) == key]


def _discount(version: Json, model: str) -> int:
    points = {each["model"]: int(each["basis_points"]) for each in version["discounts"]}
    return points.get(model, points.get(None, 0))


def _units(used: Json, step: Step) -> Iterator[tuple[str, int, int]]:
    prices = step.prices

    def with_others(name: str, classes: Sequence[str]) -> int:
        others = [used.get(each, 0) for each in OWN if each in classes and each not in prices]
        return int(used.get(name, 0)) + sum(others)

    yield "input", with_others("input", PROMPT), prices["input"]
    yield "cached_input", used.get("cached_input", 0), prices.get("cached_input", prices["input"])
    yield "output", with_others("output", ANSWER), prices["output"]
    for name in OWN:
        if name in prices:
            yield name, used.get(name, 0), prices[name]
    yield "request", 1, prices.get("request", 0)
    yield "gpu_ms", min(used.get("gpu_ms", 0), step.gpu_ms_max), prices.get("gpu_ms", 0)
    if used.get("unit"):
        yield used["unit"], used["units"], prices.get(used["unit"], 0)
