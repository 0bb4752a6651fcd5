"""The figures that Sluice was founded on, computed again, and the claims that do not follow.

What was quoted is data: `claims.toml`, and the shipped catalogue of hardware. A figure says what it
was computed from. A flag names a claim that the figures contradict, with the arithmetic.
"""

import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from routing.economics.roofline import (
    GB,
    HOUR_S,
    MTOK,
    Roofline,
    memory_of,
    roofline,
    usd_per_mtok,
    weights_bytes,
)
from routing.economics.shape import ModelShape
from routing.hardware.catalogue import Hardware, HourPrice, Precision, PriceKind, shipped

BRIEF = "the figures that Sluice was founded on"
SEQUENCE_TOKENS = 1000
"""Of the sequences by which the room on an H100 is counted."""
L40S_COUNT = 2


class DerivedFigure(NamedTuple):
    """`derivation` is the arithmetic in words, `source` whose numbers went into it."""

    id: str
    value: float
    unit: str
    derivation: str
    source: str


class Flag(NamedTuple):
    id: str
    claim: str
    why: str


@cache
def _quoted() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "claims.toml").read_text("utf-8"))


def shape_70b() -> ModelShape:
    quoted = _quoted()["model_70b"]
    return ModelShape(active_params=quoted["params"], **quoted)


def figures() -> list[DerivedFigure]:
    """All of them, in the order of `sluice economics`."""
    return [*_weights(), *_decoding(), *_break_even(), *_per_mtok(), *_margins()]


def _weights() -> Iterator[DerivedFigure]:
    shape = shape_70b()
    for precision in (Precision.FP16, Precision.INT8, Precision.INT4):
        gb = weights_bytes(shape, precision) / GB
        words = f"{shape.params:.0f} weights * {gb * GB / shape.params:g} bytes"
        yield DerivedFigure(f"weights.70b.{precision}", gb, "GB", words, BRIEF)
    parts = _quoted()["training_70b"]
    words = " + ".join(f"{count} bytes of {name}" for name, count in parts.items())
    gb = shape.params * sum(parts.values()) / GB
    yield DerivedFigure("training.70b", gb, "GB", f"{shape.params:.0f} weights * ({words})", BRIEF)


def _decoding() -> Iterator[DerivedFigure]:
    for name in ("h100", "h200", "b200"):
        part = shipped()[name]
        assert part.bandwidth_gb_s is not None
        line = roofline(shape_70b(), Precision.INT8, part)
        gb = weights_bytes(shape_70b(), Precision.INT8) / GB
        words = f"{part.bandwidth_gb_s.value:g} GB/s / {gb:g} GB of weights a token"
        source = part.bandwidth_gb_s.source
        yield DerivedFigure(
            f"decode.70b.{name}", line.decode_tokens_per_s(), "tok/s", words, source
        )


def _break_even() -> Iterator[DerivedFigure]:
    training, use = _quoted()["pretraining"], _quoted()["inference"]
    once_usd = training["gpu_h"] * training["usd_gpu_h"]
    gpu_h = use["requests_day"] * use["gpu_s_request"] / HOUR_S
    day_usd = gpu_h * use["usd_gpu_h"]
    month_usd = day_usd * use["days_month"]
    words = f"{training['gpu_h']:,} GPU-hours * ${training['usd_gpu_h']:.2f}"
    yield DerivedFigure("pretraining.usd", once_usd, "USD", words, BRIEF)
    words = f"{use['requests_day']:,} requests * {use['gpu_s_request']} GPU-seconds / {HOUR_S:,.0f}"
    yield DerivedFigure("inference.gpu_h_day", gpu_h, "GPU-hours", words, BRIEF)
    words = f"inference.gpu_h_day * ${use['usd_gpu_h']:.2f}"
    yield DerivedFigure("inference.usd_day", day_usd, "USD", words, BRIEF)
    words = f"inference.usd_day * {use['days_month']} days"
    yield DerivedFigure("inference.usd_month", month_usd, "USD", words, BRIEF)
    words = "pretraining.usd / inference.usd_month"
    yield DerivedFigure("breakeven.months", once_usd / month_usd, "months", words, BRIEF)


def _per_mtok() -> Iterator[DerivedFigure]:
    for name, gpus in (("h100", 1), ("l40s", 1), ("l40s", L40S_COUNT)):
        label = name if gpus == 1 else f"{name}_x{gpus}"
        slow, quick = _quoted()["throughput_70b"][name]
        price = _hyperscaler(shipped()[name])
        for end, usd_h, speed in (("low", price.usd_h, quick), ("high", price.usd_h_max, slow)):
            words = f"{gpus} * ${usd_h:g} an hour / ({speed} tok/s * {HOUR_S:,.0f} s) * {MTOK:,}"
            usd = usd_per_mtok(gpus * usd_h, speed)
            yield DerivedFigure(f"per_mtok.{label}.{end}", usd, "USD/Mtok", words, price.source)
    low, high = ratios()
    for end, ratio in (("low", low), ("high", high)):
        which = "smaller" if end == "low" else "larger"
        words = f"the {which} of per_mtok.h100 / per_mtok.l40s of one end"
        yield DerivedFigure(f"ratio.h100_l40s.{end}", ratio, "times", words, BRIEF)


def ratios() -> tuple[float, float]:
    """How many times an H100's million tokens cost those of one L40S: least, most."""
    h100, l40s = per_mtok("h100"), per_mtok("l40s")
    pair = (h100[0] / l40s[0], h100[1] / l40s[1])
    return min(pair), max(pair)


def per_mtok(name: str, gpus: int = 1) -> tuple[float, float]:
    """USD for a million tokens of the 70B at the quoted prices and throughput: low, high."""
    slow, quick = _quoted()["throughput_70b"][name]
    price = _hyperscaler(shipped()[name])
    return usd_per_mtok(gpus * price.usd_h, quick), usd_per_mtok(gpus * price.usd_h_max, slow)


def _margins() -> Iterator[DerivedFigure]:
    price, revenue = _hyperscaler(shipped()["b200"]), _quoted()["b200_revenue_usd_min"]
    for end, usd_h in (("low", price.usd_h), ("high", price.usd_h_max)):
        words = f"${usd_h:g} an hour / 60"
        yield DerivedFigure(f"b200.usd_min.{end}", usd_h / 60, "USD/min", words, price.source)
    for end, usd_h in (("low", price.usd_h), ("high", price.usd_h_max)):
        words = f"1 - b200.usd_min.{end} / ${revenue[end]:.2f} of revenue a minute"
        share = 1 - usd_h / 60 / revenue[end]
        yield DerivedFigure(f"margin.b200.{end}", share, "share", words, BRIEF)


def _hyperscaler(part: Hardware) -> HourPrice:
    price = part.price(PriceKind.HYPERSCALER)
    assert price is not None, part.name
    return price


# --- what does not follow ------------------------------------------------------------------------


def flags() -> list[Flag]:
    """The claims that the figures contradict. One that they bear out is not among them."""
    return [flag for flag in (_cheaper(), _one_card(), _throughput()) if flag is not None]


def _cheaper() -> Flag | None:
    least, most = _quoted()["l40s_claim"]["times"]
    low, high = ratios()
    if high >= least:
        return None
    return Flag(
        "l40s_2_3x",
        f"an L40S serves a 70B model {least}-{most} times cheaper than an H100",
        f"by the same prices and throughput it is {low:.2f} to {high:.2f} times cheaper",
    )


def _one_card() -> Flag | None:
    memory = memory_of(shape_70b(), Precision.INT8, shipped()["l40s"])
    if memory.fits:
        return None
    (low, high), (h100_low, h100_high) = per_mtok("l40s", L40S_COUNT), per_mtok("h100")
    return Flag(
        "l40s_70b_int8_memory",
        "one L40S serves a 70B model in INT8",
        f"it {memory.words()}; {L40S_COUNT} cost ${low:.2f} to ${high:.2f} a million tokens, "
        f"and one H100 ${h100_low:.2f} to ${h100_high:.2f}",
    )


def _throughput() -> Flag | None:
    slow, quick = _quoted()["throughput_70b"]["h100"]
    line = roofline(shape_70b(), Precision.FP8, shipped()["h100"])
    batch = line.largest_batch(SEQUENCE_TOKENS, 0)
    ceiling = _ceiling_tokens_per_s(line, batch)
    if ceiling >= slow:
        return None
    memory = shipped()["h100"].memory_gb
    assert memory is not None
    room_gb = line.kv_capacity_tokens * line.kv_s / line.byte_s / GB
    return Flag(
        "h100_70b_throughput",
        f"one H100 of {memory.value:g} GB serves a 70B model with {slow:,} to {quick:,} tokens a"
        " second",
        f"in FP8 it leaves {room_gb:.1f} GB for the cache, {batch} sequences of "
        f"{SEQUENCE_TOKENS:,} tokens, and the roofline allows {ceiling:.0f} tokens a second: "
        "more than one GPU, or INT4, was meant",
    )


def _ceiling_tokens_per_s(line: Roofline, batch: int) -> float:
    """Of a batch whose sequences are short yet: what no batch of that many passes."""
    return batch / line.step_s(batch, 0)
