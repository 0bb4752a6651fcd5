"""What can be said of a variant of a model, declared once: for settings, declarations, the admin
API, the row in SQL and the OpenAPI document."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError
from sqlalchemy import JSON, String
from sqlmodel import Field as Column
from sqlmodel import SQLModel
from sqlmodel._compat import SQLModelConfig

from gateway.catalog.model import ModelName, Quality
from gateway.fields import EXACT_MAX, Label, Several
from gateway.instants import InstantText
from routing.economics.shape import ModelShape

USE_CASES_MAX = 64
SHAPELESS = (
    "write what it is made of, for example shape = {params = 70600000000, layers = 80, heads = 64,"
    " kv_heads = 8, head_dim = 128}, or the path of a checkpoint that says it"
)

VariantName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
UseCase = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]
QuantizationName = Literal["bf16", "fp16", "fp8", "int8", "int4", "fp32"]
Weights = Annotated[int, Field(strict=True, ge=1, le=EXACT_MAX)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class ShapeFields(_Part):
    """What a set of weights is made of, as far as its time and memory depend on it."""

    params: Weights = Field(description="all weights")
    active_params: Weights | None = Field(
        None, description="those that one token passes; null: all, it is no mixture of experts"
    )
    layers: Several = Field(description="of its transformer")
    heads: Several = Field(description="of attention in a layer")
    kv_heads: Several = Field(description="heads that have keys and values of their own")
    head_dim: Several = Field(description="dimensions of a head")
    experts: Several = Field(1, description="in a layer; 1: it is no mixture of experts")
    experts_per_token: Several = Field(1, description="that a token passes in a layer")
    kv_values_per_token: Several | None = Field(
        None, description="null: a key and a value per layer, head and dimension"
    )

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        try:
            self.value(context_tokens=1)
        except ValueError as wrong:
            raise _wrong(str(wrong)) from wrong
        return self

    def value(self, *, context_tokens: int) -> ModelShape:
        fields = self.model_dump() | {"active_params": self.active_params or self.params}
        return ModelShape(**fields, context_tokens=context_tokens)

    @classmethod
    def of(cls, shape: ModelShape) -> Self:
        fields = {name: getattr(shape, name) for name in cls.model_fields}
        whole = {"params": round(shape.params), "active_params": round(shape.active_params)}
        return cls(**fields | whole)


class ValidationFields(_Part):
    """The quality that was measured for one use case."""

    use_case: UseCase = Field(description="a word of yours, as calls and policies name it")
    score: Quality = Field(description="from 0, the worst, to 1")
    method: Label = Field(description="how it was measured")
    validated_at: InstantText = Field(description="when it was measured")
    samples: Several = Field(description="on how many")


class VariantFields(SQLModel):
    """One set of weights of a model at one precision.

    A `Column` says how its value is stored where the type alone does not."""

    model_config = SQLModelConfig(extra="forbid", frozen=True, allow_inf_nan=False)

    quantization: QuantizationName = Column(sa_type=String)
    path: str | None = Field(
        None, description="checkpoint folder of a replica; null: that of the model"
    )
    shape: ShapeFields | None = Column(
        default=None,
        sa_type=JSON,
        description="what it is made of; null: as its checkpoint says",
        schema_extra={"validate_default": True},
    )
    gpus_per_replica: Several = 1
    context_tokens: Several | None = Field(None, description="null: as many as its model has")
    quality: list[ValidationFields] = Column(
        default=[], sa_type=JSON, max_length=USE_CASES_MAX, description="what was validated"
    )

    @field_validator("shape")
    @classmethod
    def _has_a_shape(cls, shape: ShapeFields | None, info: Any) -> ShapeFields | None:
        if shape is None and info.data.get("path") is None and "path" in info.data:
            raise _wrong(SHAPELESS)
        return shape

    @field_validator("quality")
    @classmethod
    def _each_use_case_once(cls, quality: list[ValidationFields]) -> list[ValidationFields]:
        names = [each.use_case for each in quality]
        if twice := [name for name in names if names.count(name) > 1]:
            raise _wrong(f"the use case {twice[0]} stands twice")
        return quality


class VariantSettings(VariantFields):
    """[[variants]]: a variant with its name and that of its model. A pool names both."""

    model: ModelName
    name: VariantName


def _wrong(words: str) -> PydanticCustomError:
    return PydanticCustomError("variant", "{words}", {"words": words})
