"""The parts of the catalogue as they are shown: figures with a number that leads to their source.
Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from routing.hardware.catalogue import Figure, Hardware, HourPrice, Precision, PriceKind

OFFERS = (
    PriceKind.SERVERLESS,
    PriceKind.DEDICATED,
    PriceKind.BARE_METAL,
    PriceKind.HYPERSCALER,
)


@dataclass(frozen=True, slots=True)
class SourcedText:
    """A figure in words, and the number of its source, counted from 1."""

    text: str
    source: int


@dataclass(frozen=True, slots=True)
class HardwareView:
    name: str
    title: str
    kind: str
    role: str
    memory: SourcedText | None
    bandwidth: SourcedText | None
    server: SourcedText | None
    compute: tuple[SourcedText, ...]
    """`989.4 bf16, fp16`: precisions of one speed together."""
    prices: tuple[SourcedText | None, ...]
    """USD an hour, one for each of OFFERS."""
    pools: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HardwareList:
    rows: tuple[HardwareView, ...]
    offers: tuple[str, ...]
    sources: tuple[str, ...]


def hardware_list(parts: Sequence[Hardware], pools_on: Mapping[str, Sequence[str]]) -> HardwareList:
    """`pools_on` names the pools that run on a part. Those that serve come first."""
    sources: dict[str, int] = {}
    ordered = sorted(parts, key=lambda part: not pools_on.get(part.name))
    rows = tuple([_row(part, pools_on.get(part.name, ()), sources) for part in ordered])
    offers = tuple([offer.replace("_", " ") for offer in OFFERS])
    return HardwareList(rows, offers, tuple(sources))


def _row(part: Hardware, pools: Sequence[str], sources: dict[str, int]) -> HardwareView:
    return HardwareView(
        name=part.name,
        title=part.title,
        kind=part.kind,
        role=part.role,
        memory=_figure(part.memory_gb, sources),
        bandwidth=_figure(part.bandwidth_gb_s, sources),
        server=_figure(part.gpus_server, sources),
        compute=_compute(part.tflops, sources),
        prices=tuple([_price(part.price(offer), sources) for offer in OFFERS]),
        pools=tuple(sorted(pools)),
    )


def _figure(figure: Figure | None, sources: dict[str, int]) -> SourcedText | None:
    return None if figure is None else _sourced(_number(figure.value), figure.source, sources)


def _compute(
    tflops: Mapping[Precision, Figure], sources: dict[str, int]
) -> tuple[SourcedText, ...]:
    by_figure: dict[Figure, list[str]] = {}
    for precision, figure in tflops.items():
        by_figure.setdefault(figure, []).append(precision)
    return tuple(
        [
            _sourced(f"{_number(figure.value)} {', '.join(names)}", figure.source, sources)
            for figure, names in by_figure.items()
        ]
    )


def _price(price: HourPrice | None, sources: dict[str, int]) -> SourcedText | None:
    if price is None:
        return None
    text = f"{price.usd_h:.2f}"
    if price.usd_h_max != price.usd_h:
        text += f"\N{EN DASH}{price.usd_h_max:.2f}"
    return _sourced(text, price.source, sources)


def _sourced(text: str, source: str, sources: dict[str, int]) -> SourcedText:
    return SourcedText(text, sources.setdefault(source, len(sources) + 1))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
