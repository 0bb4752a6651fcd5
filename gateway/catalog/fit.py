"""What a pool runs, on what, and whether it fits: rules between models, variants, pools and
hardware. Pure; settings, declarations and the admin API ask the same."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import NamedTuple, TypeVar

from gateway.catalog.pool import PoolFields
from gateway.catalog.tables import PoolRow, VariantRow
from gateway.catalog.variant import ShapeFields, ValidationFields, VariantSettings
from gateway.instants import instant_us
from routing.economics.roofline import memory_of
from routing.hardware.catalogue import Hardware, Precision
from routing.variants import Validation, Variant
from workers.engines.names import SIMULATED
from workers.nodes.node_type import NodeType
from workers.nodes.placement import EXTERNAL, node_misfits, share_nanousd_per_s

PricedPool = TypeVar("PricedPool", bound=PoolFields)
VariantKey = tuple[str, str]
"""The names of a model and of a variant of it."""
EARLIEST_ZONE_US = 14 * 3600 * 1_000_000
"""A date without a zone is read as UTC's; where days begin first, today is that far ahead."""


class Misfit(NamedTuple):
    """What is wrong with a row, at a key of it."""

    key: str
    words: str


def priced(pool: PricedPool, nodes: Sequence[NodeType]) -> PricedPool:
    """A pool that says nothing of its cost costs its share of a node."""
    if "cost_nanousd_per_s" in pool.model_fields_set or pool.capacity_class == EXTERNAL:
        return pool
    share = share_nanousd_per_s(pool, nodes)
    return pool.model_copy(update={"cost_nanousd_per_s": share}) if share else pool


def variant_of(row: VariantRow | VariantSettings, model_context_tokens: int) -> Variant:
    """What routing knows of a variant, whose model has a context of so many tokens."""
    context_tokens = row.context_tokens or model_context_tokens
    shape = row.shape and ShapeFields.model_validate(row.shape)
    measured = [ValidationFields.model_validate(each) for each in row.quality]
    return Variant(
        model=row.model,
        name=row.name,
        quantization=Precision(row.quantization),
        gpus_per_replica=row.gpus_per_replica,
        context_tokens=context_tokens,
        shape=shape.value(context_tokens=context_tokens) if shape else None,
        quality={each.use_case: Validation(**each.model_dump()) for each in measured},
    )


def variant_misfits(
    row: VariantRow | VariantSettings, model_context_tokens: int, now_us: int
) -> Iterator[Misfit]:
    """What contradicts its model, or the calendar."""
    if (row.context_tokens or 0) > model_context_tokens:
        words = f"{row.model} has a context of {model_context_tokens} tokens, and no variant more"
        yield Misfit("context_tokens", words)
    for each in map(ValidationFields.model_validate, row.quality):
        if instant_us(each.validated_at) > now_us + EARLIEST_ZONE_US:
            words = f"{each.use_case} was validated at {each.validated_at}, which is in the future"
            yield Misfit("quality", words)


def pool_misfits(
    pool: PoolFields | PoolRow,
    variants: Mapping[VariantKey, Variant],
    parts: Mapping[str, Hardware],
    nodes: Sequence[NodeType] = (),
) -> Iterator[Misfit]:
    """GPUs that contradict each other, hardware that nobody knows or that its variant does not fit
    into, and what no node can hold."""
    yield from (Misfit(key, words) for key, words in node_misfits(pool, nodes))
    variant = variants.get((pool.model, pool.variant))
    gpus = pool.gpus_per_replica or (variant.gpus_per_replica if variant else None)
    if gpus and pool.num_gpus and ceil(pool.num_gpus) != gpus:
        words = f"{pool.num_gpus:g} are taken for a replica, which gpus_per_replica says has {gpus}"
        yield Misfit("num_gpus", words)
    if pool.engine == SIMULATED:
        yield from _unknown_of_simulated(pool, variant)
    if pool.hardware is None:
        return
    part = parts.get(pool.hardware)
    if part is None:
        words = f"no hardware is named {pool.hardware}; there are: {', '.join(parts)}"
        yield Misfit("hardware", words)
        return
    if pool.engine == SIMULATED and (part.memory_gb is None or part.bandwidth_gb_s is None):
        lacking = "memory" if part.memory_gb is None else "bandwidth"
        yield Misfit("hardware", f"the {lacking} of {pool.hardware} is not known")
        return
    if variant is None or variant.shape is None:
        return
    memory = memory_of(
        variant.shape,
        variant.quantization,
        part,
        gpus=gpus or 1,
        context_tokens=variant.shape.context_tokens,
    )
    if not memory.fits:
        words = f"{variant.name} of {variant.model} with one context {memory.words()}"
        yield Misfit("hardware", words)


def _unknown_of_simulated(pool: PoolFields | PoolRow, variant: Variant | None) -> Iterator[Misfit]:
    """What a simulated pool has to say: its time is that of a model of known shape on a part."""
    if pool.hardware is None:
        words = 'a simulated pool names the GPU that it plays, for example hardware = "h100"'
        yield Misfit("hardware", words)
    if variant is None or variant.shape is None:
        words = f"a simulated pool needs a variant whose shape is known, and {pool.variant} is none"
        yield Misfit("variant", words)


def mixed_misfits(
    pool: PoolFields | PoolRow, others: Iterable[PoolFields | PoolRow]
) -> Iterator[Misfit]:
    """A pool that is simulated where others of its model are real, or the other way round: whoever
    calls a model is told whether it is simulated, and that cannot change from call to call.
    `others` are enabled pools, of any model."""
    is_simulated = pool.engine == SIMULATED
    for other in others:
        if other.model == pool.model and (other.engine == SIMULATED) != is_simulated:
            real, mine = ("real", "simulated") if is_simulated else ("simulated", "real")
            words = f"{pool.model} has {real} pools, so no {mine} one may stand beside them"
            yield Misfit("engine", words)
            return
