"""What can be said of a part of the operator's own, declared once: for settings, the admin API, the
row in SQL and the OpenAPI document. Owns the rules that hold inside of one part."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError
from sqlalchemy import JSON, String
from sqlmodel import Field as Column
from sqlmodel import SQLModel
from sqlmodel._compat import SQLModelConfig

from gateway.catalog.pool import HardwareName, OfferName
from gateway.catalog.variant import QuantizationName
from gateway.fields import Label, Several
from routing.hardware.catalogue import (
    Figure,
    Hardware,
    HardwareKind,
    HourPrice,
    Precision,
    PriceKind,
    shipped,
)

if TYPE_CHECKING:
    from gateway.catalog.tables import HardwareRow

FIGURE_MOST = 1e9
KindName = Literal["gpu", "tpu", "accelerator", "cpu"]
Positive = Annotated[float, Field(strict=True, gt=0, le=FIGURE_MOST)]


class PartPrice(BaseModel):
    """USD for an hour of one GPU, chip or socket."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    offer: OfferName = Field(description="how the capacity is bought")
    usd_h: Positive = Field(description="the lowest price that was quoted")
    usd_h_max: Positive | None = Field(None, description="the highest; null: there is no range")

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.usd_h_max is not None and self.usd_h_max < self.usd_h:
            raise _wrong("usd_h_max is less than usd_h")
        return self


class HardwareFields(SQLModel):
    """One kind of GPU, chip or socket. A figure that is left out is not known, and bounds nothing.

    A `Column` says how its value is stored where the type alone does not."""

    model_config = SQLModelConfig(extra="forbid", frozen=True, allow_inf_nan=False)

    title: Label
    kind: KindName = Column(sa_type=String)
    role: str = Field("", max_length=500, description="what it is for")
    reference: Label = Field(description="the document that says the figures")
    memory_gb: Positive | None = Column(
        default=None, description="10^9 bytes", schema_extra={"validate_default": True}
    )
    bandwidth_gb_s: Positive | None = Field(None, description="of its own memory")
    gpus_server: Several | None = Field(None, description="in one machine, as it is rented")
    tflops: dict[QuantizationName, Positive] = Column(
        default={},
        sa_type=JSON,
        description="dense operations a second, in 10^12, by the precision of the weights",
    )
    prices: list[PartPrice] = Column(default=[], sa_type=JSON, description="one for each offer")

    @field_validator("memory_gb")
    @classmethod
    def _gpu_has_memory(cls, memory_gb: float | None, info: ValidationInfo) -> float | None:
        if memory_gb is None and info.data.get("kind") == HardwareKind.GPU:
            raise _wrong("a GPU has memory: without it anything would seem to fit")
        return memory_gb

    @field_validator("prices")
    @classmethod
    def _each_offer_once(cls, prices: list[PartPrice]) -> list[PartPrice]:
        offers = [price.offer for price in prices]
        if twice := [offer for offer in offers if offers.count(offer) > 1]:
            raise _wrong(f"the offer {twice[0]} stands twice")
        return prices


class HardwareSettings(HardwareFields):
    """[[hardware]]: a part with the name by which pools know it."""

    name: HardwareName

    @field_validator("name")
    @classmethod
    def _is_ours(cls, name: str) -> str:
        if words := name_mistake(name):
            raise _wrong(words)
        return name


def name_mistake(name: str) -> str | None:
    """A part that ships keeps its name, and its figures their sources."""
    return f"{name} ships with Sluice: give yours another name" if name in shipped() else None


def part_of(row: "HardwareRow | HardwareSettings") -> Hardware:
    """What routing knows of it."""
    fields = HardwareFields.model_validate(row.model_dump(include=set(HardwareFields.model_fields)))

    def figure(value: Any) -> Figure | None:
        return None if value is None else Figure(float(value), fields.reference)

    return Hardware(
        name=row.name,
        title=fields.title,
        kind=HardwareKind(fields.kind),
        role=fields.role,
        memory_gb=figure(fields.memory_gb),
        bandwidth_gb_s=figure(fields.bandwidth_gb_s),
        gpus_server=figure(fields.gpus_server),
        tflops={
            Precision(p): Figure(value, fields.reference) for p, value in fields.tflops.items()
        },
        prices=tuple(
            HourPrice(PriceKind(p.offer), p.usd_h, p.usd_h_max or p.usd_h, fields.reference)
            for p in fields.prices
        ),
        is_own=True,
    )


def parts_with(own: Sequence["HardwareRow | HardwareSettings"]) -> Mapping[str, Hardware]:
    """The shipped parts, and the operator's own, by name."""
    return {**shipped(), **{row.name: part_of(row) for row in own}}


def _wrong(words: str) -> PydanticCustomError:
    return PydanticCustomError("hardware", "{words}", {"words": words})
