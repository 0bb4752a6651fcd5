"""`ray.json` in the data folder: the addresses of the running cluster, and its processes.

Only its owner can read it (0600). It is without the token, which is in RAY_AUTH_TOKEN.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from workers.ray.session import Session


class RayFile(msgspec.Struct, frozen=True):
    """The addresses of one cluster. `ingress_ports` is an inclusive range. `made_of` is a digest of
    the settings with which it was started. `writer_url`: of the one process that writes to it.
    `joined`: how Ray calls the life of a cluster that is somebody else's; `session` is then that of
    the process which joined."""

    dashboard_url: str
    gcs_address: str
    node_ip: str
    serve_proxy_port: int
    ingress_ports: tuple[int, int]
    temp_dir: str
    session: Session
    made_of: str = ""
    writer_url: str = ""
    joined: str = ""

    @property
    def life(self) -> str | Session:
        """Another one is another cluster, or one that was started anew."""
        return self.joined or self.session

    @property
    def nodes_folder(self) -> Path:
        """Where the nodes of this machine write what they are (`workers.nodes.folder`)."""
        return nodes_folder(Path(self.temp_dir))


def nodes_folder(temp_dir: Path) -> Path:
    return temp_dir.parent / "nodes"


def read_ray_file(path: Path) -> RayFile | None:
    """The last cluster started on this data folder; None when there was none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RayFile)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def write_ray_file(path: Path, file: RayFile) -> None:
    """Replace the file in one step, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".tmp")
    with suppress(FileNotFoundError):
        beside.unlink()
    with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        target.write(msgspec.json.encode(file))
    beside.replace(path)
