"""What engines there are, by name alone: for whoever checks a setting without loading one."""

VLLM = "vllm"
"""The one that runs in an environment of its own."""

ENGINE_NAMES = ("continuous", VLLM)
"""Those that generate: any of them can be the default."""

EMBEDDING = "embedding"
"""The one that embeds, whatever generates."""
