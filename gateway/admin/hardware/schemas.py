"""The parts that a replica can run on: as they ship with Sluice, and the operator's own."""

from typing import Literal

from pydantic import Field

from gateway.api.schemas import Answer, Body
from gateway.catalog.hardware import HardwareFields
from routing.hardware.catalogue import HardwareKind, Precision, PriceKind


class HardwareBody(HardwareFields, Body):
    pass


class FigureAnswer(Answer):
    value: float
    source: str = Field(description="the document that says it")


class HourPriceAnswer(Answer):
    """USD for an hour of one part; `usd_h_max` is the same where no range was quoted."""

    offer: PriceKind
    usd_h: float
    usd_h_max: float
    source: str


class HardwareAnswer(Answer):
    """One part. A figure that no document says is null."""

    object: Literal["hardware"] = "hardware"
    name: str
    title: str
    kind: HardwareKind
    role: str
    is_own: bool = Field(description="the operator's; what ships is not")
    memory_gb: FigureAnswer | None
    bandwidth_gb_s: FigureAnswer | None
    interconnect_gb_s: FigureAnswer | None
    gpus_server: FigureAnswer | None
    tflops: dict[Precision, FigureAnswer] = Field(
        description="dense operations a second, in 10^12, by the precision of the weights"
    )
    prices: list[HourPriceAnswer]
