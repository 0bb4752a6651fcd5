"""The names of all engines. A setting can be checked by them without loading an engine."""

VLLM = "vllm"
"""The one that runs in an environment of its own."""

ENGINE_NAMES = ("continuous", VLLM)
"""Those that generate: any of them can be the default."""

EMBEDDING = "embedding"
"""The one that embeds, whatever generates."""

SIMULATED = "simulated"
"""The one that is as fast as a named GPU and has none. Only a pool can name it, with that GPU."""
