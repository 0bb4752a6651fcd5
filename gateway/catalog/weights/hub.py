"""Checkpoints by name from a Hugging Face hub, pinned to the commit that the name means now.

Only the files that serving needs are asked for. HF_ENDPOINT and HF_TOKEN are the client's own
variables; it is imported when a name is first fetched, not before.
"""

from pathlib import Path

from workers.weights.manifest import SERVED


class HubError(Exception):
    """The hub did not give what was asked for, and why."""


def resolve(name: str, revision: str | None) -> str:
    """The commit a branch, tag or nothing (the default branch) stands for. Raises HubError."""
    from huggingface_hub import HfApi

    try:
        commit = HfApi().model_info(name, revision=revision).sha
    except Exception as failed:  # the client lets its HTTP library's errors through
        raise HubError(_words(name, failed)) from failed
    if not commit:
        raise HubError(f"{name}: the hub names no commit")
    return commit


def fetch(name: str, commit: str, into: Path) -> None:
    """Download what serving needs. Raises HubError; the folder may then hold a part of it."""
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(name, revision=commit, local_dir=into, allow_patterns=list(SERVED))
    except Exception as failed:
        raise HubError(_words(name, failed)) from failed


def _words(name: str, failed: Exception) -> str:
    lines = str(failed).strip().splitlines()
    return f"{name}: {type(failed).__name__}: {lines[0] if lines else 'no answer'}"
