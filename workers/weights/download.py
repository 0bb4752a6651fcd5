"""One file from a source to a disk: under another name until its SHA-256 is right.

A download that was cut goes on by range, also by another process. What can pass is tried again with
back-off; attempts count only while nothing arrives, so a poor link still ends.
"""

import errno
import hashlib
import http.client
import urllib.error
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from workers.weights.disk import Disk
from workers.weights.manifest import (
    MANIFEST,
    SMALL_BYTES_MAX,
    BadManifest,
    Manifest,
    WeightFile,
    manifest_of,
)
from workers.weights.sources import SECRET_HEADER, Source

CHUNK_BYTES = 1 << 20
TIMEOUT_S = 30.0
ATTEMPTS = 5
PAUSE_S, PAUSE_MAX_S = 0.5, 8.0
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
SECRETS = ("authorization", SECRET_HEADER)
Pause = Callable[[float], None]
Note = Callable[[int], None]
T = TypeVar("T")


class WeightsError(Exception):
    """Why a checkpoint is not there, in one line."""


class SourceCut(Exception):
    """The source broke off, is away or overloaded: trying again may help."""


class SourceResponse(Protocol):
    """Of http.client."""

    status: int

    def read(self, amount: int, /) -> bytes: ...
    def getheader(self, name: str, default: str = "", /) -> str: ...
    def close(self) -> None: ...


class _Redirects(HTTPRedirectHandler):
    """Hubs send on to where their files are, which must not hear our secrets."""

    def redirect_request(
        self, req: Request, fp: object, code: int, msg: str, headers: object, newurl: str
    ) -> Request | None:
        new = super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]
        if new is not None and urlsplit(newurl).netloc != urlsplit(req.full_url).netloc:
            for name in SECRETS:
                new.remove_header(name.capitalize())
        return new


@dataclass(frozen=True, slots=True)
class Downloads:
    """From one source to one disk. `note` hears of every chunk's bytes."""

    source: Source
    disk: Disk
    pause: Pause
    note: Note = lambda count: None

    def manifest(self, id: str | None) -> Manifest:
        """The manifest that lies beside the files, if it is that of `id`. Raises WeightsError."""

        def read() -> bytes:
            with closing(self._open(MANIFEST, 0)) as response:
                return _read_whole(response)

        try:
            return manifest_of(self._patiently(read, lambda: 0), id=id)
        except BadManifest as bad:
            raise WeightsError(f"{self.source.name}: {bad}") from bad

    def small_file(self, file: WeightFile) -> bytes:
        """A file as bytes. Raises WeightsError."""

        def read() -> bytes:
            with closing(self._open(file.name, 0)) as response:
                content = _read_whole(response)
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise WeightsError(f"{self.source.name}: {file.name} has another SHA-256")
            return content

        return self._patiently(read, lambda: 0)

    def file(self, file: WeightFile, target: Path) -> None:
        """Have the file at `target`. Raises WeightsError, and nothing is there then."""
        beside = target.with_name(f".{target.name}.part")
        target.parent.mkdir(exist_ok=True)
        try:
            self._patiently(lambda: self._go_on(file, beside), lambda: _size(beside))
            beside.chmod(0o444)
            self.disk.rename(beside, target)
        except OSError as trouble:
            if trouble.errno in NO_ROOM:
                with suppress(OSError):
                    beside.unlink(missing_ok=True)
                raise WeightsError(f"{file.name}: the disk is full") from trouble
            raise WeightsError(f"{file.name}: {trouble}") from trouble

    def _go_on(self, file: WeightFile, beside: Path) -> None:
        """Fetch what is missing. Raises SourceCut, WeightsError or OSError."""
        with open(beside, "a+b") as writing:
            digest, start = _digest_of(writing, file.bytes), writing.tell()
            if start < file.bytes or not file.bytes:
                digest = self._append(file, writing, digest)
            self.disk.sync(writing)
        if digest.hexdigest() != file.sha256:
            beside.unlink()
            self.note(-file.bytes)
            words = f"{self.source.name}: {file.name} has another SHA-256"
            raise SourceCut(words) if start else WeightsError(words)

    def _append(self, file: WeightFile, writing: BinaryIO, digest: "_Digest") -> "_Digest":
        start = writing.tell()
        with closing(self._open(file.name, start)) as response:
            if start and not _begins_at(response, start):
                writing.truncate(0)
                writing.seek(0)
                self.note(-start)
                digest, start = hashlib.sha256(), 0
            left = file.bytes - start
            while left:
                chunk = _read(response, min(CHUNK_BYTES, left))
                if not chunk:
                    words = f"{file.name} ended {left} bytes early"
                    raise SourceCut(f"{self.source.name}: {words}")
                self.disk.write(writing, chunk)
                digest.update(chunk)
                left -= len(chunk)
                self.note(len(chunk))
            if _read(response, 1):
                raise SourceCut(f"{self.source.name}: {file.name} is longer than {file.bytes}")
        return digest

    def _open(self, name: str, start: int) -> SourceResponse:
        """Raises SourceCut or WeightsError."""
        headers = {"range": f"bytes={start}-"} if start else {}
        request = self.source.request(name, {**headers, "accept-encoding": "identity"})
        try:
            response: SourceResponse = build_opener(_Redirects).open(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as refused:
            with refused:
                words = f"{self.source.name} answers {refused.code} to {name}"
            if refused.code in (408, 416, 425, 429) or refused.code >= 500:
                raise SourceCut(words) from refused
            raise WeightsError(words) from refused
        except (urllib.error.URLError, OSError, http.client.HTTPException) as away:
            reason = getattr(away, "reason", None) or away
            raise SourceCut(f"{self.source.name} is away: {reason}") from away
        return response

    def _patiently(self, step: Callable[[], T], size: Callable[[], int]) -> T:
        """Repeat a step that was cut. Raises WeightsError when nothing arrives any more."""
        failures, before = 0, size()
        while True:
            try:
                return step()
            except SourceCut as cut:
                now = size()
                failures, before = (1 if now > before else failures + 1), now
                if failures >= ATTEMPTS:
                    raise WeightsError(f"{cut} ({ATTEMPTS} attempts)") from cut
                self.pause(min(PAUSE_S * 2 ** (failures - 1), PAUSE_MAX_S))


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def _read(response: SourceResponse, amount: int) -> bytes:
    """Raises SourceCut."""
    try:
        return response.read(amount)
    except http.client.IncompleteRead as cut:
        return cut.partial or _raise_cut(cut)
    except (OSError, http.client.HTTPException) as cut:
        return _raise_cut(cut)


def _read_whole(response: SourceResponse) -> bytes:
    """A small file. Raises SourceCut."""
    content = _read(response, SMALL_BYTES_MAX)
    if str(len(content)) != response.getheader("content-length", str(len(content))):
        raise SourceCut(f"the connection was cut after {len(content)} bytes")
    return content


def _raise_cut(cut: Exception) -> bytes:
    raise SourceCut(f"the connection was cut: {cut!r}") from cut


def _digest_of(writing: BinaryIO, bytes_max: int) -> "_Digest":
    """Of what is there already. What is longer than the file is begun again."""
    writing.seek(0, 2)
    if writing.tell() > bytes_max:
        writing.truncate(0)
    writing.seek(0)
    digest = hashlib.sha256()
    while chunk := writing.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest


def _begins_at(response: SourceResponse, start: int) -> bool:
    range = response.getheader("content-range")
    return response.status == 206 and range.startswith(f"bytes {start}-")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
