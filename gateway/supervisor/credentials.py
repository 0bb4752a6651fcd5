"""The secrets of one data folder: made once, kept in DATA/secrets.json, passed by environment."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from gateway.supervisor.errors import CannotStart
from gateway.supervisor.files import read_json, write_private

FILE = "secrets.json"


@dataclass(frozen=True, slots=True)
class Credentials:
    admin_key: str
    api_key: str
    worker_secret: str
    ray_auth_token: str

    @property
    def environment(self) -> dict[str, str]:
        return {
            "SLUICE_ADMIN_KEY": self.admin_key,
            "SLUICE_API_KEY": self.api_key,
            "SLUICE_WORKER_SECRET": self.worker_secret,
            "RAY_AUTH_TOKEN": self.ray_auth_token,
            "RAY_AUTH_MODE": "token",
        }


def keep_credentials(data: Path, token: Callable[[], str]) -> Credentials:
    """Those of the folder; made with `token`, a source of unguessable text, if it is new."""
    if (credentials := read_credentials(data)) is not None:
        return credentials
    credentials_made = Credentials(
        admin_key=f"sk-sluice-admin-{token()}",
        api_key=f"sk-sluice-{token()}",
        worker_secret=token(),
        ray_auth_token=token(),
    )
    write_private(data / FILE, asdict(credentials_made))
    return credentials_made


def read_credentials(data: Path) -> Credentials | None:
    """Those of the folder, None if it has none yet. Raises CannotStart if they are damaged."""
    path = data / FILE
    if not path.exists():
        return None
    document = read_json(path)
    names = {field.name for field in fields(Credentials)}
    if not isinstance(document, dict) or not all(
        isinstance(document.get(name), str) for name in names
    ):
        raise CannotStart(f"{path}: not the secrets that `sluice up` wrote; restore the file")
    return Credentials(**{name: document[name] for name in names})
