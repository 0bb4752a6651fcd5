"""The two sizes: shapes, schedules and prices. Nothing here imports torch."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    name: str
    seed: int
    width: int
    layers: int
    feed_forward: int
    heads: int
    key_value_heads: int
    steps: int
    batch_tokens: int
    learning_rate: float
    price_input_nanousd_per_mtok: int
    price_output_nanousd_per_mtok: int


SMALL = Size(
    name="sluice-small",
    seed=11,
    width=128,
    layers=3,
    feed_forward=352,
    heads=4,
    key_value_heads=2,
    steps=4500,
    batch_tokens=3072,
    learning_rate=6e-3,
    price_input_nanousd_per_mtok=50_000_000,
    price_output_nanousd_per_mtok=200_000_000,
)
LARGE = Size(
    name="sluice-large",
    seed=12,
    width=256,
    layers=5,
    feed_forward=704,
    heads=4,
    key_value_heads=2,
    steps=3400,
    batch_tokens=2048,
    learning_rate=1.5e-3,
    price_input_nanousd_per_mtok=250_000_000,
    price_output_nanousd_per_mtok=1_000_000_000,
)
SIZES = {size.name: size for size in (SMALL, LARGE)}
