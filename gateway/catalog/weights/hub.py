"""Checkpoints by name from a Hugging Face hub, pinned to the commit that the name means now.

Only the files that serving needs are asked for. HF_ENDPOINT and HF_TOKEN are the client's own
variables; it is imported when a name is first fetched, not before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class ListedFile:
    """`sha256`: of a large file, else None."""

    name: str
    bytes: int
    sha256: str | None


def listed(name: str, commit: str) -> list[ListedFile]:
    """Everything that a commit has. Raises HubError."""
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    try:
        tree = list(HfApi().list_repo_tree(name, revision=commit, recursive=True))
    except Exception as failed:
        raise HubError(_words(name, failed)) from failed
    return [
        ListedFile(file.path, file.size, file.lfs.sha256 if file.lfs else None)
        for file in tree
        if isinstance(file, RepoFile)
    ]


def fetch(name: str, commit: str, into: Path, files: Sequence[str] = SERVED) -> None:
    """Download what serving needs. Raises HubError; the folder may then hold a part of it."""
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(name, revision=commit, local_dir=into, allow_patterns=list(files))
    except Exception as failed:
        raise HubError(_words(name, failed)) from failed


def _words(name: str, failed: Exception) -> str:
    lines = str(failed).strip().splitlines()
    return f"{name}: {type(failed).__name__}: {lines[0] if lines else 'no answer'}"
