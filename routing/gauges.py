"""What a replica says of the work inside it, in tokens: the words that a worker, the controller and
gateways share. Standard library only, and frozen."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)  # without slots, so that a worker's own figures may extend it
class Gauges:
    """`kv_*`: keys and values of running sequences, and the room for them. `cache_tokens_total` is
    the room for prefixes that no running sequence needs to have. `prefill_tokens_left`: of prompts
    that were admitted, what is not computed yet. `output_tokens_left`: what is expected of the
    open answers. 0 of a total: the replica does not say."""

    kv_tokens_used: int = 0
    kv_tokens_total: int = 0
    cache_tokens_total: int = 0
    prefill_tokens_left: int = 0
    output_tokens_left: int = 0


GAUGES = tuple(field.name for field in fields(Gauges))
