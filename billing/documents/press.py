"""The press: a process that makes PDFs and e-invoices, so that no event loop waits and none grows.

It is started for the first document and ended when nothing was asked of it for a while. It makes
one document at a time, within a bound of memory, of time, and of documents that wait. One that
takes too long is ended with its process, and the next gets another process.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from billing.documents.document import Document
from billing.documents.forms.en16931 import NotAnEInvoice, Profile
from billing.statements.printed import StatementSheet

MODULE = "billing.documents.press_process"
SIZE_BYTES = 4
"""Before each message on either pipe: its length, big-endian."""
ANSWER_BYTES_MAX = 256 * 2**20


class Form(StrEnum):
    """What the press makes."""

    PDF = "pdf"
    CII = "cii"
    UBL = "ubl"


class PressJob(msgspec.Struct, frozen=True, tag=True):
    form: Form
    document: Document
    profile: Profile = Profile.EN16931


class StatementJob(msgspec.Struct, frozen=True, tag=True):
    """A statement of account as a PDF."""

    sheet: StatementSheet


Job = PressJob | StatementJob


class Pressed(msgspec.Struct, frozen=True):
    """The content, or why the document is no e-invoice, or what went wrong in the process."""

    content: bytes = b""
    refused: str = ""
    failed: str = ""


class PressBusy(Exception):
    """As many documents wait as may."""


class PressFailed(Exception):
    """The process ended, took too long, or could not make this document."""


@dataclass(frozen=True, slots=True)
class PressBounds:
    waiting_max: int = 32
    timeout_s: float = 30.0
    memory_bytes: int = 2 * 2**30
    idle_s: float = 60.0
    jobs_max: int = 500
    """Documents that one process makes."""


@dataclass(slots=True)
class Press:
    """`await press.make(...)`; `close` at the end. Its processes end with the one that owns it."""

    bounds: PressBounds = PressBounds()
    fonts: tuple[str, ...] = ()
    """Files and folders, for characters that typst's own fonts lack."""
    _process: asyncio.subprocess.Process | None = None
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _waiting: int = 0
    _jobs: int = 0
    _idle: asyncio.TimerHandle | None = None

    async def make(
        self, form: Form, document: Document, profile: Profile = Profile.EN16931
    ) -> bytes:
        """Raises NotAnEInvoice, PressBusy, PressFailed."""
        return await self._made(PressJob(form, document, profile))

    async def make_statement(self, sheet: StatementSheet) -> bytes:
        """The PDF. Raises PressBusy, PressFailed."""
        return await self._made(StatementJob(sheet))

    async def _made(self, job: Job) -> bytes:
        if self._waiting >= self.bounds.waiting_max:
            raise PressBusy(f"{self._waiting} documents wait already")
        sent = msgspec.msgpack.encode(job)
        self._waiting += 1
        try:
            async with self._turn:
                pressed = await self._pressed(sent)
        finally:
            self._waiting -= 1
        if pressed.refused:
            raise NotAnEInvoice(pressed.refused)
        if pressed.failed:
            raise PressFailed(pressed.failed)
        return pressed.content

    async def close(self) -> None:
        async with self._turn:
            await self._end()

    async def _pressed(self, sent: bytes) -> Pressed:
        """A process that fails, and one whose caller leaves in the middle, is not used again."""
        if self._idle is not None:
            self._idle.cancel()
        whole = False
        try:
            async with asyncio.timeout(self.bounds.timeout_s):
                answer = await _exchange(await self._running(), sent)
            whole = True
        except (TimeoutError, OSError, EOFError) as failure:
            raise PressFailed(f"{type(failure).__name__}: the process was ended") from failure
        finally:
            self._jobs += 1
            if not whole or self._jobs >= self.bounds.jobs_max:
                await self._end()
        self._idle = asyncio.get_running_loop().call_later(self.bounds.idle_s, self._rest)
        return msgspec.msgpack.decode(answer, type=Pressed)

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._jobs = 0
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", MODULE, str(self.bounds.memory_bytes), *self.fonts),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        return self._process

    def _rest(self) -> None:
        """Closing its input ends an idle process."""
        if not self._turn.locked() and self._process is not None and self._process.stdin:
            self._process.stdin.close()
            self._process = None

    async def _end(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if process.stdin is not None:
                process.stdin.close()
                with suppress(OSError):
                    await process.stdin.wait_closed()


async def _exchange(process: asyncio.subprocess.Process, sent: bytes) -> bytes:
    """Raises EOFError where the process ended."""
    to, back = process.stdin, process.stdout
    assert to is not None and back is not None
    to.write(len(sent).to_bytes(SIZE_BYTES, "big") + sent)
    await to.drain()
    size = int.from_bytes(await back.readexactly(SIZE_BYTES), "big")
    if size > ANSWER_BYTES_MAX:
        raise EOFError(f"an answer of {size} bytes")
    return await back.readexactly(size)
