"""What a checkpoint is: its files with their sizes and SHA-256, and an id made of them.

The id is the SHA-256 over one line `NAME NUL SHA256 LF` for each file, sorted by name. So whoever
knows the id knows every byte. Gateways and workers name checkpoints by it, and every store has the
manifest beside the files. Knows no store and no source.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

MANIFEST = "sluice-manifest.json"
SMALL_BYTES_MAX = 64 << 20
"""Of a manifest, and of any file that is no weights."""
SERVED = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "*.safetensors",
    "*.safetensors.index.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "[0-9]_Pooling/config.json",
)
"""Names and patterns, relative to the folder. Nothing else of a checkpoint is ever taken."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


class BadManifest(ValueError):
    """A document that is no manifest, and why."""


@dataclass(frozen=True, slots=True)
class WeightFile:
    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a checkpoint consists of."""

    files: tuple[WeightFile, ...]

    @property
    def checksum(self) -> str:
        """The id of the checkpoint."""
        lines = "".join(f"{file.name}\0{file.sha256}\n" for file in self.files)
        return hashlib.sha256(lines.encode()).hexdigest()

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


def is_served(name: str) -> bool:
    """Whether a relative name is on the list. A `*` here never reaches into a sub-folder."""
    return any(
        fnmatchcase(name, pattern) and name.count("/") == pattern.count("/") for pattern in SERVED
    )


def is_id(text: str) -> bool:
    return _SHA256.fullmatch(text) is not None


def written(manifest: Manifest) -> str:
    """The manifest as the text of its file."""
    files = [{"name": f.name, "bytes": f.bytes, "sha256": f.sha256} for f in manifest.files]
    return json.dumps({"v": 1, "checksum": manifest.checksum, "files": files}, indent=1)


def manifest_of(text: str | bytes, *, id: str | None = None) -> Manifest:
    """The manifest that a text is; that of `id`, where one is given. Raises BadManifest."""
    try:
        rows = json.loads(text)["files"]
        files = tuple(WeightFile(row["name"], row["bytes"], row["sha256"]) for row in rows)
    except (ValueError, KeyError, TypeError) as odd:
        raise BadManifest(f"the manifest cannot be read: {odd!r}") from odd
    for file in files:
        _check(file)
    names = [file.name for file in files]
    if names != sorted(set(names)) or not names:
        raise BadManifest("the manifest names no file, a file twice, or files out of order")
    manifest = Manifest(files)
    if id is not None and manifest.checksum != id:
        raise BadManifest(f"the manifest is that of {manifest.checksum}")
    return manifest


def _check(file: WeightFile) -> None:
    """Raises BadManifest for a file that no store may write."""
    if not isinstance(file.name, str) or not is_served(file.name):
        raise BadManifest(f"the manifest names {file.name!r}, which is no file of a checkpoint")
    if type(file.bytes) is not int or file.bytes < 0:
        raise BadManifest(f"the manifest has no size of {file.name}")
    if not isinstance(file.sha256, str) or not is_id(file.sha256):
        raise BadManifest(f"the manifest has no SHA-256 of {file.name}")
