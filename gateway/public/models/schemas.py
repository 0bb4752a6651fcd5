"""A model as its callers may know it."""

from operator import not_
from typing import Annotated, Literal

from pydantic import AliasPath, BeforeValidator, Field, NonNegativeInt

from gateway.api.schemas import Answer, Usd
from routing.types import Task, Tier


class ModelPrices(Answer):
    """Per million tokens, and of a request: what the organization that asks pays."""

    input: Usd
    cached_input: Usd
    output: Usd
    request: Usd
    units: Annotated[
        dict[str, Usd],
        BeforeValidator(dict),
        Field({}, exclude_if=not_, description="per million, by what they are"),
    ]


class PublicModel(Answer):
    object: Literal["model"] = "model"
    id: str = Field(validation_alias=AliasPath("model", "name"))
    created: int = Field(validation_alias=AliasPath("model", "created_s"))
    owned_by: Literal["sluice"] = "sluice"
    task: Task = Field(validation_alias=AliasPath("model", "task"))
    context_length: NonNegativeInt = Field(validation_alias=AliasPath("model", "context_tokens"))
    max_output_tokens: NonNegativeInt = Field(
        validation_alias=AliasPath("model", "max_output_tokens")
    )
    supported_parameters: list[str]
    capabilities: dict[str, bool]
    simulated: bool = Field(
        validation_alias="is_simulated",
        description="whether its pools have the time of GPUs that are not there; its text says"
        " nothing then",
    )
    pricing: dict[Tier, ModelPrices] = Field(description="by tier, of those that have a price")


class PublicModels(Answer):
    """All at once: OpenAI's list of models has no pages."""

    object: Literal["list"] = "list"
    data: list[PublicModel]
