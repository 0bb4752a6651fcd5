"""A document as a PDF that is PDF/A-3a, PDF/UA-1 and Factur-X at once; bytes depend on it alone.

typst sets the pages and makes the first two claims, and the e-invoice is embedded by it. It cannot
write the metadata that Factur-X needs, so that is merged into its metadata, where its claims stay.
Import this only where documents are made: it loads typst, pikepdf and lxml.
"""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pikepdf
import typst
from lxml import etree

from billing.documents.document import Document
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.en16931 import NotAnEInvoice
from billing.documents.forms.fonts import fonts_of
from billing.documents.forms.printed import (
    XML_NAME,
    Page,
    page_of,
    with_shown_characters,
    without_marks,
)
from billing.statements.printed import StatementSheet, last_day, page_of_statement

TEMPLATE = Path(__file__).with_name("page.typ")
STANDARDS = ["a-3a", "ua-1"]
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
EXTENSION = "http://www.aiim.org/pdfa/ns/extension/"
SCHEMA = "http://www.aiim.org/pdfa/ns/schema#"
PROPERTY = "http://www.aiim.org/pdfa/ns/property#"
FACTURX = "urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#"
FACTURX_TERMS = {
    "DocumentFileName": (XML_NAME, "name of the embedded XML invoice file"),
    "DocumentType": ("INVOICE", "type of the document"),
    "Version": ("1.0", "version of the Factur-X data"),
    "ConformanceLevel": ("EN 16931", "conformance level of the Factur-X data"),
}


def pdf_of(document: Document, fonts: tuple[str, ...] = ()) -> bytes:
    """The PDF, with the e-invoice (CII, EN 16931) inside where one can be made of the document.

    `fonts` are files and folders of fonts for what typst's own lack. Raises NoFont.
    """
    xml = _e_invoice(document)
    day = document.heading.issued or document.heading.period_end
    pages = _set(page_of(document, xml), day, fonts)
    return pages if xml is None else _with_facturx(pages)


def pdf_of_statement(sheet: StatementSheet, fonts: tuple[str, ...] = ()) -> bytes:
    """The PDF of a statement of account. It makes the first two claims. Raises NoFont."""
    return _set(page_of_statement(sheet), last_day(sheet.statement), fonts)


def _e_invoice(document: Document) -> bytes | None:
    try:
        return xml_of(document, Syntax.CII)
    except NotAnEInvoice:
        return None


def _set(page: Page, day: date, fonts: tuple[str, ...]) -> bytes:
    """A mark that no font sets upon its letter has no glyph: then all marks that stand alone are
    left out of the pages."""
    shown = with_shown_characters(page, fonts_of(fonts).covered)
    try:
        return _pages(shown, day, fonts)
    except typst.TypstError:
        return _pages({**without_marks(shown), "xml": shown["xml"]}, day, fonts)


def _pages(page: Page, day: date, fonts: tuple[str, ...]) -> bytes:
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    families = fonts_of(fonts).families
    pages: bytes = _compiler(fonts).compile(
        sys_inputs={"data": json.dumps({**page, "fonts": families})},
        pdf_standards=STANDARDS,
        timestamp=int(midnight.timestamp()),
    )
    return pages


@cache
def _compiler(fonts: tuple[str, ...]) -> Any:
    """With typst's own fonts, which are the same on every machine, and those that are named."""
    book = fonts_of(fonts).book
    return typst.Compiler(str(TEMPLATE), ignore_system_fonts=True, font_paths=book)


def _with_facturx(pages: bytes) -> bytes:
    with pikepdf.open(io.BytesIO(pages)) as pdf:
        metadata = pdf.Root.Metadata
        metadata.write(_merged(metadata.read_bytes()))
        out = io.BytesIO()
        pdf.save(
            out,
            deterministic_id=True,
            fix_metadata_version=False,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
        )
    return out.getvalue()


def _merged(xmp: bytes) -> bytes:
    """typst's metadata with Factur-X's four terms, and the schema that PDF/A asks for of them."""
    packet = etree.fromstring(xmp.decode("utf-8-sig").encode())
    root = packet if etree.QName(packet).localname == "xmpmeta" else packet.getparent()
    described = root.find(f".//{{{RDF}}}Description")
    schemas = described.find(f"{{{EXTENSION}}}schemas/{{{RDF}}}Bag")
    schemas.append(_schema())
    terms = etree.SubElement(described.getparent(), f"{{{RDF}}}Description", nsmap={"fx": FACTURX})
    terms.set(f"{{{RDF}}}about", "")
    for name, (value, _) in FACTURX_TERMS.items():
        etree.SubElement(terms, f"{{{FACTURX}}}{name}").text = value
    begin = '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'.encode()
    written: bytes = etree.tostring(root, encoding="UTF-8")
    return begin + written + b'<?xpacket end="r"?>'


def _schema() -> Any:
    item = _resource(
        {
            SCHEMA: [
                ("schema", "Factur-X PDFA Extension Schema"),
                ("namespaceURI", FACTURX),
                ("prefix", "fx"),
            ]
        }
    )
    listed = etree.SubElement(etree.SubElement(item, f"{{{SCHEMA}}}property"), f"{{{RDF}}}Seq")
    for name, (_, about) in FACTURX_TERMS.items():
        listed.append(
            _resource(
                {
                    PROPERTY: [
                        ("name", name),
                        ("valueType", "Text"),
                        ("category", "external"),
                        ("description", about),
                    ]
                }
            )
        )
    return item


def _resource(parts: dict[str, list[tuple[str, str]]]) -> Any:
    item = etree.Element(f"{{{RDF}}}li")
    item.set(f"{{{RDF}}}parseType", "Resource")
    for namespace, pairs in parts.items():
        for name, value in pairs:
            etree.SubElement(item, f"{{{namespace}}}{name}").text = value
    return item
