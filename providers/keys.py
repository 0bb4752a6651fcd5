"""Keys by their names: a file of the folder of provider keys, else a variable of this process. A
file is read for each call, so that a key can come, change and go while this runs."""

from collections.abc import Mapping
from pathlib import Path

KEY_PREFIX = "SLUICE_PROVIDER_KEY_"
BYTES_MAX = 16_384


class Keys:
    def __init__(self, environ: Mapping[str, str], folder: Path | None = None) -> None:
        self._environ = environ
        self._folder = folder

    def get(self, name: str) -> str | None:
        """What is held under a name; None for nothing, and for a name of anything else."""
        if name.removeprefix(KEY_PREFIX) in (name, "") or not name.isidentifier():
            return None
        held = _content(self._folder / name) if self._folder is not None else None
        return (self._environ.get(name, "") if held is None else held).strip() or None


def _content(path: Path) -> str | None:
    """None: there is no file that can be read. An empty one holds no key, whatever a variable
    does."""
    try:
        with path.open("rb") as file:
            return file.read(BYTES_MAX).decode()
    except (OSError, ValueError):
        return None
