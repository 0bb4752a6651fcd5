"""Our code as one package for a Ray cluster that does not have it: a zip named by its content.

Ray unpacks it on each node where a replica of ours is to run, as the working directory of that
replica. So nothing of this machine's paths is needed there. The same files make the same bytes, and
so the same name, on every machine.
"""

import io
import zipfile
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from workers.settings import PROJECT_ROOT

FOLDERS = ("routing", "workers")
KINDS = ("*.py", "*.toml", "*.lua")
PREFIX = "_ray_pkg_"
BEGINNING = (1980, 1, 1, 0, 0, 0)
"""The oldest instant that a zip can say: when a file was written is no part of it."""


@dataclass(frozen=True, slots=True)
class Package:
    name: str
    content: bytes

    @property
    def digest(self) -> str:
        return self.name.removeprefix(PREFIX).removesuffix(".zip")

    @property
    def uri(self) -> str:
        return f"gcs://{self.name}"


@cache
def own_package(root: Path = PROJECT_ROOT) -> Package:
    paths = sorted(
        path for folder in FOLDERS for kind in KINDS for path in (root / folder).rglob(kind)
    )
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as package:
        for path in paths:
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), BEGINNING)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            package.writestr(entry, path.read_bytes())
    digest = sha256()
    for path in paths:  # not of the zip: other versions of zlib make other bytes
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode())
        digest.update(sha256(path.read_bytes()).digest())
    return Package(f"{PREFIX}{digest.hexdigest()[:32]}.zip", content.getvalue())
