"""Disks for checkpoints that nodes of this machine have of their own: a folder for each, which goes
with its node as the disk of a rented machine does."""

import shutil
from collections.abc import Collection
from pathlib import Path

from workers.nodes.node_type import NodeType
from workers.weights.wanted import FOLDER, GB, OWN, SHARED


def store_variables(type: NodeType, folder: Path) -> dict[str, str]:
    """What tells the replicas of a node of its disk; nothing where it has none."""
    if type.weights_gb is None:
        return {}
    return {FOLDER: str(folder), GB: str(type.weights_gb), OWN: "1"}


def remove_disks(root: Path, alive: Collection[str] = ()) -> None:
    """Those of all nodes but some."""
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.name != SHARED and folder.name not in alive:
            shutil.rmtree(folder, ignore_errors=True)
