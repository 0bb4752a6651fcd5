"""Checkpoints that stay where they are, and that nodes fetch from there: `hf://` and `s3://`.

A gateway takes what counting tokens needs, all files but weights. Of the weights it knows the
SHA-256s: a hub says them of each large file, and an S3 prefix has the manifest beside its files.
"""

import hashlib
import os
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from gateway.catalog.weights import hub
from gateway.catalog.weights.files import is_weights
from gateway.catalog.weights.hub import HubError
from workers.weights.disk import Disk
from workers.weights.download import Downloads, WeightsError
from workers.weights.manifest import Manifest, WeightFile, is_served
from workers.weights.sources import HubName, S3Prefix, open_source, read_source


def pinned(text: str) -> HubName | S3Prefix:
    """A source, with the commit that a hub's name means now. Raises BadSource and HubError."""
    place = read_source(text)
    if isinstance(place, HubName):
        return replace(place, revision=hub.resolve(place.name, place.revision))
    return place


def small_files(place: HubName | S3Prefix, into: Path) -> Manifest:
    """Download all files but weights, and say what all of them are. Raises HubError."""
    if isinstance(place, HubName):
        return _of_hub(place, into)
    try:
        source = open_source(str(place), os.environ, lambda: datetime.now(UTC))  # noqa: TID251
        downloads = Downloads(source, Disk(), time.sleep)
        manifest = downloads.manifest(None)
        for file in manifest.files:
            if not is_weights(file.name):
                downloads.file(file, into / file.name)
    except WeightsError as failed:
        raise HubError(str(failed)) from failed
    return manifest


def _of_hub(place: HubName, into: Path) -> Manifest:
    assert place.revision is not None
    listed = [file for file in hub.listed(place.name, place.revision) if is_served(file.name)]
    stays = [file for file in listed if is_weights(file.name) and file.sha256 is not None]
    comes = [file.name for file in listed if file not in stays]
    hub.fetch(place.name, place.revision, into, comes)
    files = [_hashed(into, name) for name in comes]
    files += [WeightFile(file.name, file.bytes, file.sha256 or "") for file in stays]
    return Manifest(tuple(sorted(files, key=lambda file: file.name)))


def _hashed(folder: Path, name: str) -> WeightFile:
    with open(folder / name, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return WeightFile(name, (folder / name).stat().st_size, digest)
