"""The models that a key may use, with what its organization pays for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from fastapi import Depends, Request

from billing.prices.book import Prices, Unpriced
from gateway.api.dependencies import parts_of
from gateway.catalog.catalog import CatalogKeeper
from gateway.errors import model_not_found
from gateway.tenants.auth import Principal
from gateway.wire.bodies.supported import capabilities, supported_parameters
from routing.types import Clock, Model, Tier


class OfferedModel(NamedTuple):
    model: Model
    supported_parameters: Sequence[str]
    capabilities: Mapping[str, bool]
    pricing: Mapping[Tier, Prices]
    is_simulated: bool


@dataclass(frozen=True, slots=True)
class ModelOffers:
    keeper: CatalogKeeper
    clock: Clock

    def usable(self, caller: Principal) -> Sequence[Model]:
        """The smallest first."""
        models = self.keeper.catalog.models.values()
        usable = [model for model in models if caller.leave.may_use(model.name)]
        return sorted(usable, key=lambda model: model.size_rank)

    def model(self, caller: Principal, name: str) -> Model:
        """Raises ApiError 404, also for one that the key may not use."""
        model = self.keeper.catalog.models.get(name)
        if model is None or not caller.leave.may_use(name):
            raise model_not_found(name)
        return model

    def offer(self, caller: Principal, model: Model) -> OfferedModel:
        tokens = self.keeper.catalog.counters[model.name]
        return OfferedModel(
            model=model,
            supported_parameters=supported_parameters(model, tokens),
            capabilities=capabilities(model, tokens),
            pricing=self._pricing(caller.organization, model.name),
            is_simulated=model.name in self.keeper.catalog.simulated,
        )

    def _pricing(self, organization: str, model: str) -> Mapping[Tier, Prices]:
        now_us = round(self.clock() * 1e6)
        prices = {
            tier: self.keeper.prices.lookup(model, tier, False, now_us, organization)
            for tier in Tier
        }
        return {tier: price for tier, price in prices.items() if not isinstance(price, Unpriced)}


async def offers_of(request: Request) -> ModelOffers:
    parts = parts_of(request)
    return ModelOffers(parts.catalog, parts.outside.clock)


Offers = Annotated[ModelOffers, Depends(offers_of)]
