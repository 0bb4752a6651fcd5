"""The press makes documents in a process of its own: bounded, mended, and gone when it is idle."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import psutil
import pytest

from billing.documents.document import Document
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.en16931 import NotAnEInvoice, Profile
from billing.documents.press import Form, Press, PressBounds, PressBusy, PressFailed, PressJob
from billing.documents.press_process import pressed
from tests.billing.documents.cases import CASES
from tests.billing.documents.made import document, line

TURNS_MAX = 2_000
HEAVY = ("typst", "pikepdf", "facturx", "lxml", "pypdf", "fontTools")


@pytest.fixture
async def press() -> AsyncIterator[Press]:
    one = Press()
    yield one
    await one.close()


def processes() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


async def test_press_makes_what_the_forms_make_and_keeps_its_process(press: Press) -> None:
    before = processes()
    made = CASES["domestic"]
    pdf = await press.make(Form.PDF, made)
    assert pdf.startswith(b"%PDF")
    (started,) = processes() - before
    xml = await press.make(Form.UBL, made, Profile.PEPPOL)
    assert xml == xml_of(made, Syntax.UBL, Profile.PEPPOL)
    assert await press.make(Form.PDF, made) == pdf
    assert processes() - before == {started}
    await press.close()
    assert processes() == before


async def test_document_that_is_no_e_invoice_is_refused_and_the_next_one_is_made(
    press: Press,
) -> None:
    with pytest.raises(NotAnEInvoice, match="no number"):
        await press.make(Form.CII, document(number=""))
    assert (await press.make(Form.CII, document())).startswith(b"<?xml")


def large() -> Document:
    return document([line(seq, quantity=seq) for seq in range(1, 3_000)])


async def test_document_that_takes_too_long_ends_with_its_process_and_the_next_is_made() -> None:
    before = processes()
    press = Press(PressBounds(timeout_s=0.001))
    with pytest.raises(PressFailed, match="TimeoutError"):
        await press.make(Form.PDF, large())
    assert processes() == before
    press.bounds = PressBounds()
    assert await press.make(Form.UBL, document())
    await press.close()


async def test_process_that_is_killed_fails_one_document_alone(press: Press) -> None:
    before = processes()
    await press.make(Form.UBL, document())
    (pid,) = processes() - before
    making = asyncio.create_task(press.make(Form.PDF, large()))
    await asyncio.sleep(0)
    psutil.Process(pid).kill()
    with pytest.raises(PressFailed):
        await making
    assert await press.make(Form.UBL, document())


async def test_caller_who_leaves_leaves_no_answer_for_the_next_one(press: Press) -> None:
    await press.make(Form.UBL, document())
    leaving = asyncio.create_task(press.make(Form.PDF, large()))
    await asyncio.sleep(0.01)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert (await press.make(Form.UBL, document())).startswith(b"<?xml")


async def test_no_more_documents_wait_than_may() -> None:
    press = Press(PressBounds(waiting_max=1))
    first = asyncio.create_task(press.make(Form.UBL, document()))
    await asyncio.sleep(0)
    with pytest.raises(PressBusy):
        await press.make(Form.UBL, document())
    assert await first
    await press.close()


async def test_process_ends_when_it_is_idle_and_when_it_has_made_enough() -> None:
    before = processes()
    press = Press(PressBounds(idle_s=0.0))
    await press.make(Form.UBL, document())
    for _ in range(TURNS_MAX):
        if processes() == before:
            break
        await asyncio.sleep(0.01)
    assert processes() == before
    press.bounds = PressBounds(jobs_max=1)
    await press.make(Form.UBL, document())
    assert processes() == before
    await press.close()


async def test_process_without_memory_fails_and_says_so() -> None:
    press = Press(PressBounds(memory_bytes=150 * 2**20))
    with pytest.raises(PressFailed):
        await press.make(Form.PDF, large())
    await press.close()


def test_failure_of_one_document_is_an_answer() -> None:
    answer = pressed(PressJob(Form.UBL, document(currency="no currency")))
    assert answer.failed.startswith("ValueError") and not answer.content


def test_gateway_loads_nothing_that_makes_documents() -> None:
    """Memory and start of a gateway do not grow by what the press loads."""
    program = (
        "import sys; import billing.documents.press, gateway.admin.invoices.routes;"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    assert ended.stdout.strip() == "[]"
