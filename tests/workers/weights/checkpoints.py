"""Small checkpoints by content, and where a gateway's store would serve them."""

import hashlib
from collections.abc import Mapping

from workers.weights.manifest import MANIFEST, Manifest, WeightFile, written
from workers.weights.sources import STORE_PATH


def manifest(files: Mapping[str, bytes]) -> Manifest:
    return Manifest(
        tuple(
            WeightFile(name, len(files[name]), hashlib.sha256(files[name]).hexdigest())
            for name in sorted(files)
        )
    )


def checkpoint(seed: int, size: int = 1000) -> dict[str, bytes]:
    """Files of a checkpoint, other ones for each seed."""
    return {
        "config.json": f'{{"seed": {seed}}}'.encode(),
        "model.safetensors": hashlib.shake_128(str(seed).encode()).digest(size),
    }


def in_store(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """By their paths at a gateway."""
    made_of = manifest(files)
    place = f"{STORE_PATH}/{made_of.checksum}"
    named = {f"{place}/{name}": content for name, content in files.items()}
    return {**named, f"{place}/{MANIFEST}": written(made_of).encode()}
