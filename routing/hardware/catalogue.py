"""The parts that a replica can run on, with a source for every figure.

The parts are data: `parts.toml` beside this file. A figure without a source is absent, and absent
is None, never zero. GB are 10^9 bytes; everything is for one GPU, chip or socket.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple


class Precision(StrEnum):
    """What a weight is stored in."""

    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    INT8 = "int8"
    INT4 = "int4"
    FP32 = "fp32"


class HardwareKind(StrEnum):
    GPU = "gpu"
    TPU = "tpu"
    ACCELERATOR = "accelerator"
    CPU = "cpu"


class PriceKind(StrEnum):
    """How an hour of a part is sold. The first three are the offers that are compared."""

    SERVERLESS = "serverless"
    DEDICATED = "dedicated"
    BARE_METAL = "bare_metal"
    HYPERSCALER = "hyperscaler"


class Figure(NamedTuple):
    """A number with the document that says it."""

    value: float
    source: str


class HourPrice(NamedTuple):
    """USD for an hour of one GPU; `usd_h` equals `usd_h_max` where no range was quoted."""

    offer: PriceKind
    usd_h: float
    usd_h_max: float
    source: str

    @property
    def middle_usd_h(self) -> float:
        return (self.usd_h + self.usd_h_max) / 2


@dataclass(frozen=True, slots=True)
class Hardware:
    """One part. `tflops` are dense operations a second, in 10^12, by the weights' precision."""

    name: str
    title: str
    kind: HardwareKind
    role: str
    memory_gb: Figure | None = None
    bandwidth_gb_s: Figure | None = None
    interconnect_gb_s: Figure | None = None
    gpus_server: Figure | None = None
    tflops: Mapping[Precision, Figure] = field(default_factory=dict)
    prices: tuple[HourPrice, ...] = ()
    is_own: bool = False
    """The operator's; what ships is not."""

    def price(self, offer: PriceKind) -> HourPrice | None:
        return next((price for price in self.prices if price.offer is offer), None)

    def compute(self, precision: Precision) -> Figure | None:
        """Operations a second with weights of this precision. Where a part does not compute in it,
        weights are unpacked to the next wider one that it has."""
        return next((self.tflops[p] for p in WIDER[precision] if p in self.tflops), None)


WIDER: Mapping[Precision, tuple[Precision, ...]] = MappingProxyType(
    {
        Precision.INT4: (Precision.INT4, Precision.INT8, Precision.FP16, Precision.BF16),
        Precision.INT8: (Precision.INT8, Precision.FP16, Precision.BF16),
        Precision.FP8: (Precision.FP8, Precision.FP16, Precision.BF16),
        Precision.FP16: (Precision.FP16, Precision.BF16),
        Precision.BF16: (Precision.BF16, Precision.FP16),
        Precision.FP32: (Precision.FP32,),
    }
)
"""The fastest way that an engine may multiply such weights, for a ceiling: INT4 weights with 8-bit
activations where a part has no INT4 of its own."""


@cache
def shipped() -> Mapping[str, Hardware]:
    """The parts that come with Sluice, by name."""
    return read_parts((files(__package__) / "parts.toml").read_text("utf-8"))


def read_parts(text: str) -> Mapping[str, Hardware]:
    """Raises ValueError for a part with a figure whose source is not named, or that is not above
    zero; KeyError where a part lacks its title, kind or role."""
    table = tomllib.loads(text)
    sources: Mapping[str, str] = table.pop("sources")
    return MappingProxyType({name: _part(name, each, sources) for name, each in table.items()})


def _part(name: str, table: Mapping[str, Any], sources: Mapping[str, str]) -> Hardware:
    def figure(pair: Any) -> Figure:
        value, source = pair
        if source not in sources or not value > 0:
            raise ValueError(f"{name}: {value} of {source}: neither a figure nor a source")
        return Figure(float(value), sources[source])

    numbers = ("memory_gb", "bandwidth_gb_s", "interconnect_gb_s", "gpus_server")
    fields: dict[str, Any] = {key: figure(table[key]) for key in numbers if key in table}
    return Hardware(
        name=name,
        title=table["title"],
        kind=HardwareKind(table["kind"]),
        role=table["role"],
        tflops={Precision(p): figure(pair) for p, pair in table.get("tflops", {}).items()},
        prices=tuple(_price(each, figure) for each in table.get("prices", ())),
        **fields,
    )


def _price(table: Mapping[str, Any], figure: Any) -> HourPrice:
    least = figure((table["usd_h"], table["source"]))
    most = figure((table.get("usd_h_max", least.value), table["source"]))
    return HourPrice(PriceKind(table["offer"]), least.value, most.value, least.source)
