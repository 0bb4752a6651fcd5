"""`python -m billing.documents.press_process BYTES [FONT ...]`: jobs in, contents out.

The one process that imports typst, pikepdf, lxml, factur-x and fontTools. It ends when its
input does.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
from typing import BinaryIO

import msgspec

from billing.documents.forms.en16931 import NotAnEInvoice
from billing.documents.press import SIZE_BYTES, Form, Job, Pressed, StatementJob

REASON_MAX = 500
THREADS = "2"
"""Of typst. By itself it starts one a core, and each takes address space, which is bounded."""


def main(memory_bytes: int, fonts: tuple[str, ...]) -> None:
    """Its parent ends it: an interrupt of the terminal is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.ERROR)
    os.environ["RAYON_NUM_THREADS"] = THREADS
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    jobs, contents = sys.stdin.buffer, sys.stdout.buffer
    decoder: msgspec.msgpack.Decoder[Job] = msgspec.msgpack.Decoder(Job)
    while (sent := _message(jobs)) is not None:
        answer = msgspec.msgpack.encode(pressed(decoder.decode(sent), fonts))
        contents.write(len(answer).to_bytes(SIZE_BYTES, "big") + answer)
        contents.flush()


def pressed(job: Job, fonts: tuple[str, ...] = ()) -> Pressed:
    """A document that cannot be made fails alone, whatever the reason."""
    try:
        return Pressed(content=_content(job, fonts))
    except NotAnEInvoice as refusal:
        return Pressed(refused=str(refusal))
    except Exception as failure:
        return Pressed(failed=f"{type(failure).__name__}: {failure}"[:REASON_MAX])


def _content(job: Job, fonts: tuple[str, ...]) -> bytes:
    if isinstance(job, StatementJob):
        from billing.documents.forms.pdf import pdf_of_statement

        return pdf_of_statement(job.sheet, fonts)
    if job.form is Form.PDF:
        from billing.documents.forms.pdf import pdf_of

        return pdf_of(job.document, fonts)
    from billing.documents.forms.e_invoice import Syntax, xml_of

    return xml_of(job.document, Syntax(job.form.value), job.profile)


def _message(jobs: BinaryIO) -> bytes | None:
    """The next message, or None at the end of the input."""
    size = jobs.read(SIZE_BYTES)
    if len(size) < SIZE_BYTES:
        return None
    return jobs.read(int.from_bytes(size, "big"))


if __name__ == "__main__":
    main(int(sys.argv[1]), tuple(sys.argv[2:]))
