"""What engines there are, by name alone: for whoever checks a setting without loading one."""

ENGINE_NAMES = ("continuous",)
"""Those that generate: any of them can be the default."""

EMBEDDING = "embedding"
"""The one that embeds, whatever generates."""
