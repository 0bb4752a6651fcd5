"""A file that is to hold the latest of what changes. A disk without room delays it and ends
nothing: whoever owns the file tries again now and then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.supervisor.files import write_private

Say = Callable[[str], None]


class KeptFile:
    """`is_promise`: while the file is there what it says is true, so it goes rather than lie."""

    def __init__(self, path: Path, say: Say, *, is_promise: bool = False) -> None:
        self._path = path
        self._say = say
        self._is_promise = is_promise
        self._late: Any = None

    def write(self, document: Any) -> None:
        was_late, self._late = self._late is not None, document
        try:
            write_private(self._path, document)
        except OSError as refused:
            if self._is_promise:
                self._path.unlink(missing_ok=True)
            if not was_late:
                self._say(f"{self._path}: {refused.strerror}; written when there is room")
            return
        self._late = None
        if was_late:
            self._say(f"{self._path}: written")

    def retry(self) -> None:
        """Write what could not be written."""
        if self._late is not None:
            self.write(self._late)

    def remove(self) -> None:
        self._late = None
        self._path.unlink(missing_ok=True)
