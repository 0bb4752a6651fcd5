"""A variant: one set of weights of a model at one precision, and what its quality was measured to
be. Owns plain frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from routing.economics.shape import ModelShape
from routing.hardware.catalogue import Precision


class Validation(NamedTuple):
    """The quality of a variant for one use case, from 0 (worst) to 1 (best). `method` says how it
    was measured, `samples` on how many; `validated_at` is ISO 8601."""

    use_case: str
    score: float
    method: str
    validated_at: str
    samples: int


@dataclass(frozen=True, slots=True)
class Variant:
    """What was declared of a variant. A pool names it by the model's name and its own."""

    model: str
    name: str
    quantization: Precision
    gpus_per_replica: int = 1
    context_tokens: int | None = None
    """The longest context it is served with. None: that of its model."""
    shape: ModelShape | None = None
    """None where neither its declaration nor a checkpoint says it."""
    quality: Mapping[str, Validation] = field(default_factory=dict, hash=False)
    """By use case. One that is not here was not validated."""
