"""What a document costs to make: `python -m bench.documents`.

Documents of 120 and of 2,000 lines with a month of days, five projects and five keys, each another
one, so that nothing which typst remembers of the last helps the next but its fonts. Processor time
is that of this process with its threads; the time of a wall clock stands beside it. The first
document, which loads typst, pikepdf and lxml, is told apart.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import date, timedelta
from os import getloadavg
from statistics import median
from time import perf_counter, process_time

from billing.documents.composing import compose
from billing.documents.document import (
    Annex,
    AnnexRow,
    Document,
    DocumentAddress,
    DocumentKind,
    DocumentLine,
    DocumentParty,
    Heading,
    Measure,
    TaxCategory,
    TaxTreatment,
)
from billing.documents.forms.csv_table import csv_of
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.focus import focus_csv
from billing.documents.forms.json_text import json_of
from billing.documents.forms.pdf import pdf_of

FIRST, LAST = date(2026, 11, 1), date(2026, 11, 30)
TAXED = TaxTreatment(TaxCategory.STANDARD, 190_000)
SELLER = DocumentParty(
    "Sluice Inference GmbH",
    DocumentAddress(("Torstrasse 1",), "Berlin", "10119", "DE"),
    vat_id="DE136695976",
    email="billing@sluice.example",
)
BUYER = DocumentParty(
    "Beispiel AG",
    DocumentAddress(("Marienplatz 8",), "Muenchen", "80331", "DE"),
    vat_id="DE129273398",
)
FORMS: dict[str, Callable[[Document], bytes]] = {
    "pdf": pdf_of,
    "cii": lambda document: xml_of(document, Syntax.CII),
    "ubl": lambda document: xml_of(document, Syntax.UBL),
    "csv": csv_of,
    "json": json_of,
    "focus": lambda document: focus_csv([document]),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    first = _timed(pdf_of, _document(1, 0))
    _tell("pdf, the first one", 1, [first])
    for lines in (120, 2_000):
        for name, form in FORMS.items():
            _tell(name, lines, [_timed(form, _document(lines, n)) for n in range(1, rounds + 1)])


def _timed(form: Callable[[Document], bytes], document: Document) -> tuple[float, float, int]:
    """Milliseconds of the processor and of the wall, and bytes."""
    wall, processor = perf_counter(), process_time()
    size = len(form(document))
    return (process_time() - processor) * 1e3, (perf_counter() - wall) * 1e3, size


def _tell(name: str, lines: int, rounds: list[tuple[float, float, int]]) -> None:
    processor, wall, size = zip(*rounds, strict=True)
    told = {
        "form": name,
        "lines": lines,
        "cpu_ms": round(median(processor), 1),
        "wall_ms": round(median(wall), 1),
        "bytes": round(median(size)),
        "cpu_ms_each": [round(each, 1) for each in processor],
        "wall_ms_each": [round(each, 1) for each in wall],
        "load": round(getloadavg()[0], 1),
    }
    print(json.dumps(told), flush=True)


def _document(lines: int, number: int) -> Document:
    heading = Heading(
        kind=DocumentKind.INVOICE,
        document_id=f"inv_{number}",
        number=f"SLU-2026-{number:06d}",
        issued=date(2026, 12, 1),
        due=date(2026, 12, 31),
        period_start=FIRST,
        period_end=LAST,
        seller=SELLER,
        buyer=BUYER,
    )
    return compose(heading, [_line(n, number) for n in range(1, lines + 1)], annexes=_annexes())


def _line(seq: int, number: int) -> DocumentLine:
    quantity = 99_700 * seq + 1_000 * number
    return DocumentLine(
        seq=seq,
        kind="usage",
        description=f"tale-{seq % 4}, default, input",
        quantity=quantity,
        unit=Measure.TOKEN,
        unit_price_nanousd=600_000_000,
        base_quantity=1_000_000,
        amount_nanousd=quantity * 600,
        tax=TAXED,
        service_start=FIRST,
        service_end=LAST,
        project=f"prj_{seq % 5}",
        model=f"tale-{seq % 4}",
        service_tier="default",
        component="input",
        price_version="pv_1",
    )


def _annexes() -> list[Annex]:
    names = {
        "project": [f"prj_{n}" for n in range(5)],
        "key": [f"key_{n}" for n in range(5)],
        "day": [(FIRST + timedelta(days=n)).isoformat() for n in range(30)],
    }
    return [
        Annex(by, tuple(_used(name, place) for place, name in enumerate(rows, 1)))
        for by, rows in names.items()
    ]


def _used(name: str, place: int) -> AnnexRow:
    return AnnexRow(name, place * 17, place * 1_234_567, place * 45_678, place * 740_740_200)


if __name__ == "__main__":
    main()
