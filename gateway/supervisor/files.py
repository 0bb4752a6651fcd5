"""Small files that must be whole and private: replaced at once, readable by their owner only."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any


def write_private(path: Path, document: Any) -> None:
    """Write JSON with mode 0600 so that a reader sees the old file or the new one. Raises OSError,
    and leaves the old one."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(document, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(descriptor)
        os.replace(fresh, path)
    except OSError:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> Any | None:
    """What stands in the file, or None if it is missing or not JSON."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
