"""All prices that hold together: the rates of a version, computed once into what rating reads.

Pure. Knows how longer prompts, an organization's own prices and its discounts change a price. Knows
nothing of dates: the price book decides which version holds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import product
from typing import Annotated, Any

import msgspec

from billing.prices.rounding import divide_half_even
from billing.types import TOKEN_CLASSES

BASIS_POINTS = 10_000
"""In the whole: a discount of so many leaves nothing to pay."""
EVERY_MODEL = ""


class Component(StrEnum):
    """What is counted: tokens of a class, whole requests, GPU-milliseconds, or units of a kind.

    `minimum` is not used up: a call that costs less than it is charged the difference.
    """

    INPUT = "input"
    CACHED_INPUT = "cached_input"
    CACHE_WRITE = "cache_write"
    OUTPUT = "output"
    REASONING = "reasoning"
    REQUEST = "request"
    MINIMUM = "minimum"
    GPU_MS = "gpu_ms"
    AUDIO_INPUT = "audio_input"
    IMAGE_INPUT = "image_input"
    AUDIO_OUTPUT = "audio_output"
    IMAGE_OUTPUT = "image_output"
    SEARCH_UNIT = "search_unit"
    IMAGE = "image"
    SECOND = "second"
    CHARACTER = "character"


OF_TOKENS = tuple(component for component in Component if component in TOKEN_CLASSES)
"""What may have another price for longer prompts."""
OF_UNITS = (Component.SEARCH_UNIT, Component.IMAGE, Component.SECOND, Component.CHARACTER)
"""What a call is sold by beside its tokens. It has units of one of them."""
WITH_INPUT = (Component.CACHE_WRITE, Component.AUDIO_INPUT, Component.IMAGE_INPUT)
WITH_OUTPUT = (Component.REASONING, Component.AUDIO_OUTPUT, Component.IMAGE_OUTPUT)
"""Tokens that are counted with input, or with output, unless they have a price of their own."""
COMPONENT_PATTERN = rf"^({'|'.join(Component)}|image(/[a-z0-9]{{1,16}}){{1,2}})$"
"""An image may have a price by its size, as `image/1024x1024`, or by its quality too, as
`image/1024x1024/high`."""


AUTO = "auto"
"""The size, or the quality, of images whose server chooses it."""


def image_of(size: str, quality: str) -> str:
    """The unit of images that are sold by size and quality."""
    return f"{Component.IMAGE}/{size}/{quality}"


def amounts_of_units(rate: object, images: Mapping[str, int]) -> dict[str, int]:
    """Nano-USD of one unit, by what it is. A `rate` says them by kind, and `images` those of images
    by size, or by size and quality."""
    amounts = {unit.value: getattr(rate, f"{unit}_nanousd") for unit in OF_UNITS}
    amounts |= {f"{Component.IMAGE}/{image}": amount for image, amount in images.items()}
    return {unit: amount for unit, amount in amounts.items() if amount is not None}


def amount_of_unit(amounts: Mapping[str, int], unit: str) -> int | None:
    """Of an image of this size and quality, else of this size, else of any. Where the server
    chooses, of the dearest that it may choose. None: of none."""
    found = (_nearest(amounts, each) for each in _chosen(amounts, unit))
    return max((amount for amount in found if amount is not None), default=None)


def _nearest(amounts: Mapping[str, int], unit: str) -> int | None:
    while unit not in amounts:
        unit, slash, _ = unit.rpartition("/")
        if not slash:
            return None
    return amounts[unit]


def _chosen(amounts: Iterable[str], unit: str) -> Iterable[str]:
    """What `auto` may be: whatever has an amount, and something else."""
    parts = unit.split("/")
    if AUTO not in parts:
        return (unit,)
    known = [each.split("/") for each in amounts]
    named = (
        {*(each[place] for each in known if len(each) > place), AUTO} if part == AUTO else {part}
        for place, part in enumerate(parts)
    )
    return map("/".join, product(*named))


def kind_of(component: str) -> Component:
    """What it is a price of: `image` for images of any size and quality."""
    return Component(component.partition("/")[0])


class PriceRate(msgspec.Struct, frozen=True):
    """Nano-USD per million units of one component.

    It holds for calls with at least `prompt_from` prompt tokens. For a GPU-millisecond it holds for
    the first `units_max` of a call: further ones cost nothing more.
    """

    model: str
    tier: str
    component: Annotated[str, msgspec.Meta(pattern=COMPONENT_PATTERN)]
    nanousd_per_mtok: int
    batch: bool = False
    prompt_from: int = 0
    units_max: int | None = None


class Discount(msgspec.Struct, frozen=True):
    """A discount off everybody's prices of a model. "" is every model without a discount of its
    own."""

    model: str
    basis_points: int


@dataclass(frozen=True, slots=True)
class Prices:
    """The rates of one (model, tier, batch) in one version, nano-USD per million units.

    None means no price of its own: such tokens are counted with input, or with output. `units` has
    the prices of units, by what they are. `longer` has the prices of calls with longer prompts, by
    rising `prompt_from`.
    """

    version_id: str
    model: str
    tier: str
    batch: bool
    input: int
    cached_input: int
    output: int
    request: int = 0
    cache_write: int | None = None
    reasoning: int | None = None
    audio_input: int | None = None
    image_input: int | None = None
    audio_output: int | None = None
    image_output: int | None = None
    minimum: int = 0
    gpu_ms: int = 0
    gpu_ms_max: int = 0
    units: tuple[tuple[str, int], ...] = ()
    prompt_from: int = 0
    longer: tuple[Prices, ...] = ()
    of_prompt: tuple[int, ...] = field(init=False, repr=False, compare=False)
    of_completion: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """The prices of all classes that a prompt, or an answer, may be split among."""

    def __post_init__(self) -> None:
        of_prompt = self.input, self.cached_input, *self._own(WITH_INPUT)
        object.__setattr__(self, "of_prompt", of_prompt)
        object.__setattr__(self, "of_completion", (self.output, *self._own(WITH_OUTPUT)))

    def _own(self, classes: Iterable[str]) -> Iterator[int]:
        return (price for each in classes if (price := getattr(self, each)) is not None)

    def at_prompt(self, prompt_tokens: int) -> Prices:
        """The prices of a call with so long a prompt, for all of its tokens."""
        if not self.longer:
            return self
        place = bisect_right(self.longer, prompt_tokens, key=lambda prices: prices.prompt_from)
        return self.longer[place - 1] if place else self

    def unit_price(self, unit: str) -> int | None:
        """The price of units of a kind. None where they have none, and then they are not
        counted."""
        return amount_of_unit(dict(self.units), unit)

    def unit_charged(self, held: str, made: str) -> str:
        """The kind as which units are charged that were held as one kind and came as another."""
        most, price = self.unit_price(held), self.unit_price(made)
        return made if most is not None and price is not None and price <= most else held


RateKey = tuple[str, str, bool]
"""Model, tier served and batch: what is priced as a whole."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """Every price that holds under one frozen id."""

    version_id: str
    prices: Mapping[RateKey, Prices] = field(repr=False)


def tariff_of(version_id: str, rates: Iterable[PriceRate]) -> Tariff:
    """The prices of a version. A model that lacks a price for input or output is not in it."""
    groups: dict[RateKey, dict[int, dict[str, PriceRate]]] = {}
    for rate in rates:
        group = groups.setdefault((rate.model, rate.tier, rate.batch), {})
        group.setdefault(rate.prompt_from, {})[rate.component] = rate
    return Tariff(
        version_id,
        {
            key: _prices(version_id, key, by_prompt)
            for key, by_prompt in groups.items()
            if {Component.INPUT, Component.OUTPUT} <= by_prompt.get(0, {}).keys()
        },
    )


def agreed(
    version_id: str, everybodys: Tariff, own: Tariff, discounts: Iterable[Discount]
) -> Tariff:
    """The prices of an organization: its own where it has them, else everybody's with its
    discounts."""
    points = {discount.model: discount.basis_points for discount in discounts}
    prices = {
        key: _discounted(
            price, points.get(price.model, points.get(EVERY_MODEL, 0)), version_id=version_id
        )
        for key, price in everybodys.prices.items()
    }
    prices |= {
        key: _discounted(price_of_own, 0, version_id) for key, price_of_own in own.prices.items()
    }
    return Tariff(version_id, prices)


def _prices(
    version_id: str, key: RateKey, by_prompt: Mapping[int, Mapping[str, PriceRate]]
) -> Prices:
    """The prices of one model. A price that a longer prompt does not change is that of shorter
    ones."""
    parts: dict[str, PriceRate] = {}
    steps = []
    for prompt_from in sorted(by_prompt):
        parts = {**parts, **by_prompt[prompt_from]}
        steps.append(_step(version_id, key, parts, prompt_from))
    return replace(steps[0], longer=tuple(steps[1:]))


def _step(
    version_id: str, key: RateKey, parts: Mapping[str, PriceRate], prompt_from: int
) -> Prices:
    """The prices at one length of prompt. Cached input costs as input unless it has a price."""
    model, tier, batch = key
    amounts = {component: rate.nanousd_per_mtok for component, rate in parts.items()}
    gpu = parts.get(Component.GPU_MS)
    return Prices(
        version_id=version_id,
        model=model,
        tier=tier,
        batch=batch,
        input=amounts[Component.INPUT],
        cached_input=amounts.get(Component.CACHED_INPUT, amounts[Component.INPUT]),
        output=amounts[Component.OUTPUT],
        request=amounts.get(Component.REQUEST, 0),
        **_own(amounts.get),
        units=tuple(
            (name, price) for name, price in sorted(amounts.items()) if kind_of(name) in OF_UNITS
        ),
        minimum=amounts.get(Component.MINIMUM, 0),
        gpu_ms=gpu.nanousd_per_mtok if gpu else 0,
        gpu_ms_max=(gpu.units_max or 0) if gpu else 0,
        prompt_from=prompt_from,
    )


def _own(price_of: Callable[[str], int | None]) -> dict[str, Any]:
    return {name.value: price_of(name) for name in (*WITH_INPUT, *WITH_OUTPUT)}


def _discounted(prices: Prices, basis_points: int, version_id: str) -> Prices:
    """The discounted prices. Each is rounded once, here, to whole nano-USD per million."""
    remainder = BASIS_POINTS - basis_points

    def off(price: int) -> int:
        return divide_half_even(price * remainder, BASIS_POINTS)

    return replace(
        prices,
        version_id=version_id,
        input=off(prices.input),
        cached_input=off(prices.cached_input),
        output=off(prices.output),
        request=off(prices.request),
        **_own(lambda name: None if (own := getattr(prices, name)) is None else off(own)),
        units=tuple((name, off(price)) for name, price in prices.units),
        minimum=off(prices.minimum),
        gpu_ms=off(prices.gpu_ms),
        longer=tuple(_discounted(longer, basis_points, version_id) for longer in prices.longer),
    )
