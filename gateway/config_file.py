"""Which settings file is meant, and what stands in it, before anything is checked.

Apart from the settings themselves, which take longer to import than most commands take to run.
"""

import os
import tomllib
from pathlib import Path
from typing import Any

PREFIX = "SLUICE_"
FILE_NAME = "sluice.toml"


class SettingsError(Exception):
    """One line for the user: which file or variable, which key, what is wrong with it."""


def find_config(path: Path | None) -> Path:
    """The file named, else SLUICE_CONFIG, else ./sluice.toml, else the one of the project."""
    if path is not None:
        return path.absolute()
    if name := os.environ.get(f"{PREFIX}CONFIG"):
        return Path(name).absolute()
    here = Path(FILE_NAME).absolute()
    return here if here.exists() else Path(__file__).parent.parent / FILE_NAME


def read_file(path: Path) -> dict[str, Any]:
    """Its tables, unchecked; raises SettingsError."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as unreadable:
        raise SettingsError(f"{path}: {unreadable.strerror}") from unreadable
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise SettingsError(f"{path}: not valid TOML: {broken}") from broken
