"""How long a step and a prompt take at best, what fits the memory, and what a million tokens cost.

The roofline: a step takes as long as the slower of two things, its bytes over the bandwidth or its
operations over the FLOPS (Williams, Waterman, Patterson: "Roofline", CACM 52(4), 2009). Decoding
reads all weights and the whole cache of keys and values once per token, so bandwidth bounds it;
a prompt is bound by FLOPS. What a part really reaches of its roofline is calibration.py's.

Every figure here is a ceiling: no engine is faster. Bytes, seconds, tokens, USD.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from types import MappingProxyType
from typing import NamedTuple

from routing.economics.shape import ModelShape
from routing.hardware.catalogue import Hardware, Precision

GB = 1e9
TERA = 1e12
MTOK = 1_000_000
HOUR_S = 3600.0
MEMORY_SHARE = 0.9
"""Of a GPU's memory, for weights and cache: what vLLM takes unless told otherwise
(`gpu_memory_utilization`). The rest is for activations and CUDA itself."""
KV_BYTES = 2.0
"""Of one number in the cache: 16 bits, whatever the weights are stored in."""
WEIGHT_BYTES: Mapping[Precision, float] = MappingProxyType(
    {
        Precision.FP32: 4.0,
        Precision.BF16: 2.0,
        Precision.FP16: 2.0,
        Precision.FP8: 1.0,
        Precision.INT8: 1.0,
        Precision.INT4: 0.5,
    }
)


class UnknownHardware(ValueError):
    """The catalogue lacks the figure that was asked for."""


class Memory(NamedTuple):
    """What a replica needs and has. `gpus_needed` is the least number of its GPUs that hold the
    weights and one sequence of the whole context; None where the memory of the part is unknown."""

    needed_bytes: float
    usable_bytes: float | None
    gpus_needed: int | None

    @property
    def fits(self) -> bool:
        return self.usable_bytes is None or self.needed_bytes <= self.usable_bytes

    def words(self) -> str:
        """Why it does not fit, for whoever declared it."""
        assert self.usable_bytes is not None and self.gpus_needed is not None
        return (
            f"needs {self.needed_bytes:,.0f} bytes and has {self.usable_bytes:,.0f}: "
            f"{self.gpus_needed} GPUs of this kind would hold it"
        )


def weights_bytes(shape: ModelShape, precision: Precision) -> float:
    return shape.params * WEIGHT_BYTES[precision]


def kv_bytes_per_token(shape: ModelShape, bytes_per_value: float = KV_BYTES) -> float:
    """2 * layers * kv_heads * head_dim * bytes: Llama 3.1 70B keeps 327,680 bytes a token."""
    return shape.kv_values * bytes_per_value


def memory_of(
    shape: ModelShape,
    precision: Precision,
    hardware: Hardware,
    *,
    gpus: int = 1,
    context_tokens: int = 0,
) -> Memory:
    """Whether `gpus` of this part hold the weights and one sequence of `context_tokens`."""
    needed = weights_bytes(shape, precision) + kv_bytes_per_token(shape) * context_tokens
    if hardware.memory_gb is None:
        return Memory(needed, None, None)
    usable = hardware.memory_gb.value * GB * MEMORY_SHARE
    return Memory(needed, usable * gpus, max(1, ceil(needed / usable)))


@dataclass(frozen=True, slots=True)
class Roofline:
    """One variant on one part: the constants of its ceilings, in seconds, computed once.

    `roofline` makes it. Of a part without known FLOPS only the bandwidth bounds."""

    shape: ModelShape
    precision: Precision
    hardware: str
    gpus: int
    byte_s: float
    """Seconds to read a byte, over all GPUs of the replica."""
    param_bytes: float
    weights_step_s: float
    """To read the weights of one token's way."""
    expert_s: float
    """To read one more expert."""
    kv_s: float
    """To read what is kept of one token of context."""
    token_s: float
    """To multiply one token with its weights: 2 operations a weight."""
    attention_s: float
    """To attend from one token to one token of context: 4 operations a head's dimension."""
    kv_capacity_tokens: int
    """Tokens of context that fit beside the weights, all sequences together; 0 where the memory is
    unknown or full."""

    def step_s(self, batch: float, context_tokens: float) -> float:
        """One token for each of `batch` sequences that have `context_tokens` together.

        max((W + kv * ctx) / BW, (2 * P * B + 4 * L * H * d * ctx) / F)."""
        if self.expert_s:
            shape = self.shape
            experts = min(shape.experts, max(1.0, batch) * shape.experts_per_token)
            weights_s = self.weights_step_s + (experts - shape.experts_per_token) * self.expert_s
        else:
            weights_s = self.weights_step_s
        memory_s = weights_s + self.kv_s * context_tokens
        compute_s = self.token_s * batch + self.attention_s * context_tokens
        return memory_s if memory_s > compute_s else compute_s

    def prefill_s(self, prompt_tokens: float, cached_tokens: float = 0.0) -> float:
        """A prompt of which a prefix is in the cache: the rest passes the weights, and attends to
        all that is before it: (2 * P * (S - C) + 2 * L * H * d * (S^2 - C^2)) / F, and never less
        than reading the weights and the cached prefix once."""
        fresh = max(1.0, prompt_tokens - cached_tokens)
        before = max(0.0, prompt_tokens - fresh)
        attended = (prompt_tokens * prompt_tokens - before * before) / 2
        compute_s = self.token_s * fresh + self.attention_s * attended
        params = self.shape.params_read(fresh) if self.expert_s else self.shape.active_params
        memory_s = params * self.param_bytes * self.byte_s + self.kv_s * before
        return memory_s if memory_s > compute_s else compute_s

    def at(self, speed: float) -> "Roofline":
        """The same where everything takes so many times less time."""
        if speed == 1:
            return self
        times = ("byte_s", "weights_step_s", "expert_s", "kv_s", "token_s", "attention_s")
        return replace(self, **{name: getattr(self, name) / speed for name in times})

    def decode_tokens_per_s(self) -> float:
        """Of one stream alone, with nothing in its context."""
        return 1 / self.step_s(1, 0)

    def largest_batch(self, input_tokens: float, output_tokens: float) -> int:
        """Sequences at once: each has its prompt and, on average, half of its answer."""
        return int(self.kv_capacity_tokens / max(1.0, input_tokens + output_tokens / 2))

    def usd_per_mtok_out(self, usd_h: float, batch: int, context_tokens: float) -> float:
        """A million tokens of answers, where `batch` sequences decode; `usd_h` of one GPU."""
        step_usd = self.gpus * usd_h / HOUR_S * self.step_s(batch, context_tokens)
        return MTOK * step_usd / batch

    def usd_per_mtok_in(
        self, usd_h: float, prompt_tokens: float, cached_tokens: float = 0.0
    ) -> float:
        """A million tokens of prompts of this length; `usd_h` of one GPU."""
        prefill_usd = self.gpus * usd_h / HOUR_S * self.prefill_s(prompt_tokens, cached_tokens)
        return MTOK * prefill_usd / prompt_tokens


def roofline(
    shape: ModelShape, precision: Precision, hardware: Hardware, gpus: int = 1
) -> Roofline:
    """The ceilings of a replica on `gpus` GPUs that share every matrix (tensor parallelism, taken
    to be free). Raises UnknownHardware where the part's bandwidth is not known."""
    if hardware.bandwidth_gb_s is None:
        raise UnknownHardware(f"{hardware.name}: its bandwidth is not known")
    byte_s = 1 / (hardware.bandwidth_gb_s.value * GB * gpus)
    compute = hardware.compute(precision)
    operation_s = 1 / (compute.value * TERA * gpus) if compute else 0.0
    param_bytes = WEIGHT_BYTES[precision]
    memory = memory_of(shape, precision, hardware, gpus=gpus)
    spare_bytes = (memory.usable_bytes or 0.0) - memory.needed_bytes
    kv_bytes = kv_bytes_per_token(shape)
    return Roofline(
        shape=shape,
        precision=precision,
        hardware=hardware.name,
        gpus=gpus,
        byte_s=byte_s,
        param_bytes=param_bytes,
        weights_step_s=shape.active_params * param_bytes * byte_s,
        expert_s=shape.expert_params * param_bytes * byte_s,
        kv_s=kv_bytes * byte_s,
        token_s=2 * shape.active_params * operation_s,
        attention_s=4 * shape.layers * shape.heads * shape.head_dim * operation_s,
        kv_capacity_tokens=max(0, int(spare_bytes / kv_bytes)),
    )


def usd_per_mtok(usd_h: float, tokens_per_s: float) -> float:
    """What a million tokens cost at a throughput that was measured."""
    return MTOK * usd_h / (HOUR_S * tokens_per_s)
