"""The names of all engines. A setting can be checked by them without loading an engine."""

from routing.types import SIMULATED as SIMULATED

VLLM = "vllm"
"""The one that runs in an environment of its own."""

ENGINE_NAMES = ("continuous", VLLM)
"""Those that generate: any of them can be the default."""

EMBEDDING = "embedding"
"""The one that embeds, whatever generates."""

POOL_ENGINES = (*ENGINE_NAMES, EMBEDDING, SIMULATED)
"""Those that a pool can name. A simulated one names a GPU too, so it is never the default."""
