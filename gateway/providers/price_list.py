"""What a provider charges us: dated lists of rates, which of them holds, and what changed. Pure.

A list counts once somebody has approved it, from its instant on and until the next one. A model
that a later list leaves out keeps the rates that it had: what is bought is never free by omission.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, field_serializer, model_validator

from billing.money import usd
from billing.prices.tariff import amount_of_unit, amounts_of_units
from billing.settings import ImageKind
from billing.written_usd import CostUsd, WrittenUsd, wrong
from gateway.fields import EXACT_MAX, Label
from routing.dated_prices import DatedCost

DEFAULT = "default"
BASE = (DEFAULT, 0)
"""The tier, and the length of a prompt, that each model has a rate of."""
RATES_MAX = 2_000
OF_TOKENS = ("input", "cached_input", "output")
BATCH = "batch"
NO_BATCHES = "Sluice makes no batch calls, so rates of them would count nowhere: leave them out"

TierName = Literal["priority", "default", "flex"]
Place = tuple[str, str, int]


class ListedRate(WrittenUsd):
    """What one model costs in one tier, for prompts of at least so many tokens. Units cost beside
    them, as a price of the book says them."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )

    model: Label = Field(description="as the provider calls it", examples=["gpt-4o-mini"])
    tier: TierName = Field("default", description="of the provider's service")
    prompt_from_tokens: Annotated[int, Field(strict=True, ge=0, le=EXACT_MAX)] = Field(
        0, description="of calls with at least so long a prompt"
    )
    input_nanousd_per_mtok: CostUsd
    output_nanousd_per_mtok: CostUsd
    cached_input_nanousd_per_mtok: CostUsd | None = Field(
        None, description="of a prompt that the provider has cached; null: as of others"
    )
    search_unit_nanousd: CostUsd | None = None
    image_nanousd: CostUsd | None = Field(None, description="of any size and quality")
    images: dict[ImageKind, CostUsd] = Field(
        {},
        description="of an image by its size, as `1024x1024`, or by its quality too, as"
        " `1024x1024/high`",
    )
    second_nanousd: CostUsd | None = Field(None, description="of sound")
    character_nanousd: CostUsd | None = Field(None, description="of a text to speak")

    @model_validator(mode="before")
    @classmethod
    def _no_batches(cls, value: Any) -> Any:
        if not isinstance(value, Mapping) or BATCH not in value:
            return value
        if value[BATCH] is not False:
            raise wrong(NO_BATCHES)
        return {name: each for name, each in value.items() if name != BATCH}

    @field_serializer("images")
    def _as_written(self, images: dict[str, int]) -> dict[str, str]:
        return {image: usd(amount) for image, amount in images.items()}

    @model_validator(mode="after")
    def _cached_is_cheaper(self) -> "ListedRate":
        cached = self.cached_input_nanousd_per_mtok
        if cached is not None and cached > self.input_nanousd_per_mtok:
            raise wrong(f"{self.model}: a cached token costs more than one that is not cached")
        return self

    @property
    def place(self) -> Place:
        return self.model, self.tier, self.prompt_from_tokens

    @property
    def of_units(self) -> dict[str, int]:
        """Nano-USD of one unit, by what it is."""
        return amounts_of_units(self, self.images)

    def unit_nanousd(self, unit: str) -> int:
        """What one of these units costs. Those that the list has not cost nothing beside tokens."""
        return amount_of_unit(self.of_units, unit) or 0

    @property
    def components(self) -> dict[str, int]:
        """Nano-USD for a million tokens by class, and of one unit by what it is."""
        of_tokens = {name: getattr(self, f"{name}_nanousd_per_mtok") for name in OF_TOKENS}
        return {name: amount for name, amount in of_tokens.items() if amount is not None} | (
            self.of_units
        )


class PriceList(NamedTuple):
    """One that is approved."""

    version: int
    starts_us: int
    rates: tuple[ListedRate, ...]

    def of_model(self, model: str) -> tuple[ListedRate, ...]:
        return tuple([rate for rate in self.rates if rate.model == model])


class PriceChange(NamedTuple):
    """A rate before and after, in nano-USD. None: there is none."""

    model: str
    tier: str
    prompt_from_tokens: int
    component: str
    was: int | None
    is_now: int | None

    @property
    def per(self) -> Literal["mtok", "unit"]:
        return "mtok" if self.component in OF_TOKENS else "unit"


def mistakes(rates: Sequence[ListedRate]) -> Iterator[str]:
    """What is wrong between the rates of a list."""
    places = [rate.place for rate in rates]
    for place in sorted({each for each in places if places.count(each) > 1}):
        yield f"{place[0]} has two rates for the same calls"
    plain = {rate.model for rate in rates if rate.place[1:] == BASE}
    for model in sorted({rate.model for rate in rates} - plain):
        yield f"{model} has no rate of the default tier from the first token of a prompt on"


def dated_costs(lists: Sequence[PriceList], model: str) -> list[DatedCost]:
    """As a pool has them that says no price of its own. Of units that a list has several prices of,
    decisions reckon with the dearest."""
    return [
        DatedCost(
            each.starts_us,
            None,
            rate.input_nanousd_per_mtok,
            rate.output_nanousd_per_mtok,
            rate.cached_input_nanousd_per_mtok,
            max(rate.of_units.values(), default=0),
        )
        for each in lists
        for rate in each.of_model(model)
        if rate.place[1:] == BASE
    ]


def rates_at(lists: Sequence[PriceList], model: str, at_us: int) -> tuple[ListedRate, ...]:
    """Of the last list that has begun and has the model."""
    begun = [each for each in lists if each.starts_us <= at_us and each.of_model(model)]
    last = max(begun, key=lambda each: (each.starts_us, each.version), default=None)
    return () if last is None else last.of_model(model)


def of_tier(rates: Sequence[ListedRate], tier: str) -> tuple[ListedRate, ...]:
    """A tier that is not listed is not bought."""
    own = tuple([rate for rate in rates if rate.tier == tier])
    if own and min(rate.prompt_from_tokens for rate in own) == 0:
        return own
    return tuple([rate for rate in rates if rate.tier == DEFAULT])


def bought_tier(rates: Sequence[ListedRate]) -> str | None:
    """What a provider is asked for. None: nothing, which is its default."""
    return rates[0].tier if rates and rates[0].tier != DEFAULT else None


def rate_for(rates: Sequence[ListedRate], prompt_tokens: int) -> ListedRate | None:
    """The rate for a prompt: all of it costs as its length says."""
    fitting = [rate for rate in rates if rate.prompt_from_tokens <= prompt_tokens]
    return max(fitting, key=lambda rate: rate.prompt_from_tokens, default=None)


def changes(before: Sequence[ListedRate], after: Sequence[ListedRate]) -> list[PriceChange]:
    """In the order of their places. A model that is left out keeps its rates, and is no change."""
    old = {rate.place: rate.components for rate in before}
    new = {rate.place: rate.components for rate in after}
    models = {rate.model for rate in after}
    return [
        PriceChange(*place, component, was, is_now)
        for place in sorted({*old, *new})
        if place[0] in models
        for component in _in_order({*old.get(place, {}), *new.get(place, {})})
        if (was := old.get(place, {}).get(component))
        != (is_now := new.get(place, {}).get(component))
    ]


def unpriced(provider: str, model: str) -> str:
    """Why a pool of an account is refused."""
    return (
        f"the account {provider} has no approved price of {model}: approve a price list that has"
        " it, or give the pool a price of its own"
    )


def read_rates(rows: Sequence[Mapping[str, Any]]) -> tuple[ListedRate, ...]:
    """As SQL has them. Those of batches, which lists could have before, counted never."""
    return tuple([ListedRate.model_validate(row) for row in rows if not row.get(BATCH)])


def _in_order(components: Iterable[str]) -> list[str]:
    """Tokens before units."""
    return sorted(components, key=lambda each: (each not in OF_TOKENS, each))
