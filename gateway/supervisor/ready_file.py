"""DATA/ready.json: how to reach this Sluice, true for as long as the file exists."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from gateway.supervisor.latest_file import KeptFile, Say

FILE = "ready.json"


@dataclass(frozen=True, slots=True)
class Ready:
    base_url: str
    console_url: str
    admin_key: str
    api_key: str
    models: Sequence[str]
    pids: Mapping[str, int] = field(default_factory=dict)


class ReadyFile:
    """Absent until everything is ready, rewritten as parts come and go, gone when they stop."""

    def __init__(self, data: Path, say: Say) -> None:
        self._file = KeptFile(data / FILE, say, is_promise=True)
        self._pids: Mapping[str, int] = {}
        self._ready: Ready | None = None
        self._file.remove()

    def announce(self, ready: Ready) -> None:
        self._ready = ready
        self._write()

    def follow(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._write()

    def offer(self, models: Sequence[str]) -> None:
        """What there is to call now; nothing is written while nothing has changed."""
        if self._ready is not None and list(self._ready.models) != list(models):
            self._ready = replace(self._ready, models=models)
            self._write()

    def withdraw(self) -> None:
        self._ready = None
        self._file.remove()

    def retry(self) -> None:
        """Write what a full disk did not take."""
        self._file.retry()

    def _write(self) -> None:
        if self._ready is not None:
            self._file.write(asdict(replace(self._ready, pids=dict(self._pids))))
