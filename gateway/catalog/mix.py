"""What mixes and their pools say of each other. Pure; settings, declarations and the admin API ask
the same."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gateway.catalog.fit import Misfit
from gateway.catalog.pool import PoolFields
from gateway.catalog.tables import PoolRow
from workers.mix import Mix
from workers.nodes.placement import EXTERNAL, SPOT

RESERVED = "reserved"
Pools = Mapping[str, PoolFields | PoolRow]


class MixMistake(NamedTuple):
    """What is wrong, at a key of a mix, and at a field of a pool where it is one of that."""

    key: str
    words: str
    pool: str = ""
    field: str = ""


def mix_mistakes(mix: Mix, pools: Pools) -> Iterator[MixMistake]:
    """`pools` by name. One that is not there is none of theirs: it serves nobody."""
    there = [name for name in mix.pools if name in pools]
    for name in there:
        if pools[name].model != mix.model:
            words = f"{name} serves {pools[name].model}, and {mix.name} is of {mix.model}"
            yield MixMistake("pools", words, name, "model")
    for name in there[1:]:
        if pools[name].variant != pools[there[0]].variant:
            words = (
                f"{name} has the variant {pools[name].variant}, and {there[0]} of {mix.name} has "
                f"{pools[there[0]].variant}"
            )
            yield MixMistake("pools", words, name, "variant")
    yield from _order_mistakes(mix, there, pools)
    if set(there) == set(mix.pools):
        yield from _count_mistakes(mix, pools)


def _order_mistakes(mix: Mix, there: Sequence[str], pools: Pools) -> Iterator[MixMistake]:
    classes = [pools[name].capacity_class for name in there]
    first = classes.index(EXTERNAL) if EXTERNAL in classes else len(classes)
    for name, capacity_class in zip(there[first:], classes[first:], strict=True):
        if capacity_class != EXTERNAL:
            words = f"{name} stands behind the external pool {there[first]}, which comes last"
            yield MixMistake("pools", words, name, "capacity_class")


def _count_mistakes(mix: Mix, pools: Pools) -> Iterator[MixMistake]:
    reserved = [name for name in mix.pools if pools[name].capacity_class == RESERVED]
    held = sum(pools[name].max_replicas for name in reserved)
    if mix.base > held:
        words = f"{mix.base} of {mix.name} is more than its reserved pools may hold, {held}"
        yield MixMistake("base", words, *((reserved[-1], "max_replicas") if reserved else ()))
    if mix.spare and not any(pools[name].capacity_class == SPOT for name in mix.pools):
        yield MixMistake("spare", f"{mix.name} has no spot pool that needs a spare")


def mix_misfits(
    name: str, pool: PoolFields | PoolRow, mixes: Sequence[Mix], others: Pools
) -> Iterator[Misfit]:
    """What a pool contradicts of its mix, at the fields of the pool. `others`: those beside it."""
    for mix in mixes:
        if name in mix.pools:
            for mistake in mix_mistakes(mix, {**others, name: pool}):
                field = mistake.field or "capacity_class"
                yield Misfit(field, f"mix {mix.name}: {mistake.words}")


def mix_neighbours(name: str, mixes: Sequence[Mix]) -> list[str]:
    """The other pools of the mixes that a pool is in."""
    return [pool for mix in mixes if name in mix.pools for pool in mix.pools if pool != name]
