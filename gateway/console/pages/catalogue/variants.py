"""Variants of models as they are shown, with the quality that was measured. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.console.formatting import count
from routing.economics.roofline import GB, kv_bytes_per_token, weights_bytes
from routing.economics.shape import ModelShape
from routing.hardware.catalogue import Precision
from routing.variants import Validation, Variant


@dataclass(frozen=True, slots=True)
class ValidationView:
    use_case: str
    score: str
    width: float
    """Of a bar that is 100 wide."""
    method: str
    date: str
    samples: str


@dataclass(frozen=True, slots=True)
class VariantView:
    model: str
    name: str
    quantization: str
    gpus: int
    context: str
    params: str
    """Empty where the shape is not known, as are `weights` and `kv`."""
    weights: str
    kv: str
    quality: tuple[ValidationView, ...]
    pools: tuple[str, ...]


def variant_views(
    variants: Sequence[Variant], pools_of: Mapping[tuple[str, str], Sequence[str]]
) -> tuple[VariantView, ...]:
    """`pools_of` names the pools that run a variant, by the names of its model and its own."""
    ordered = sorted(variants, key=lambda variant: (variant.model, variant.name))
    return tuple([_row(each, pools_of.get((each.model, each.name), ())) for each in ordered])


def _row(variant: Variant, pools: Sequence[str]) -> VariantView:
    params, weights, kv = _sizes(variant.shape, variant.quantization)
    return VariantView(
        model=variant.model,
        name=variant.name,
        quantization=variant.quantization,
        gpus=variant.gpus_per_replica,
        context=count(variant.context_tokens or 0),
        params=params,
        weights=weights,
        kv=kv,
        quality=tuple([_validation(each) for _, each in sorted(variant.quality.items())]),
        pools=tuple(sorted(pools)),
    )


def _sizes(shape: ModelShape | None, precision: Precision) -> tuple[str, str, str]:
    if shape is None:
        return "", "", ""
    params = _params(shape.params)
    if shape.active_params != shape.params:
        params += f", {_params(shape.active_params)} active"
    weights = f"{weights_bytes(shape, precision) / GB:,.1f} GB"
    return params, weights, f"{kv_bytes_per_token(shape) / 1000:,.1f} kB"


def _params(number: float) -> str:
    return f"{number / 1e9:,.1f} B" if number >= 1e9 else f"{number / 1e6:,.1f} M"


def _validation(validation: Validation) -> ValidationView:
    return ValidationView(
        use_case=validation.use_case,
        score=f"{validation.score:.2f}",
        width=round(100 * validation.score, 1),
        method=validation.method,
        date=f"{datetime.fromisoformat(validation.validated_at):%d %b %Y}",
        samples=count(validation.samples),
    )
