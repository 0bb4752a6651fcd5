"""The judges of e-invoices: schemas and EN 16931 rules, run by Saxon, and Peppol's.

Never factur-x's own check: it answers yes where no Saxon server listens. Saxon brings a runtime
with signal handlers of its own, so it has a process of its own beside that of the tests.
"""

from __future__ import annotations

import atexit
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import facturx
from lxml import etree
from peppol.xsd import validate_xsd

from billing.documents.forms.e_invoice import Syntax

SHIPPED = Path(facturx.__file__).parent / "xsd_and_schematron"
SVRL = "{http://purl.oclc.org/dsdl/svrl}"
STYLESHEETS = {
    Syntax.CII: SHIPPED / "facturx-en16931" / "FACTUR-X_EN16931.xslt",
    Syntax.UBL: SHIPPED / "ubl-2.1" / "EN16931-UBL-validation.xslt",
}


def complaints(xml: bytes, syntax: Syntax) -> list[str]:
    """What the schema and the rules say against it, warnings too."""
    return schema_errors(xml, syntax) + rule_errors(xml, syntax)


def schema_errors(xml: bytes, syntax: Syntax) -> list[str]:
    root = etree.fromstring(xml)
    if syntax is Syntax.UBL:
        return list(validate_xsd(xml)[1])
    schema = _cii_schema()
    schema.validate(root)
    return [f"line {error.line}: {error.message}" for error in schema.error_log]


def rule_errors(xml: bytes, syntax: Syntax) -> list[str]:
    return _saxon().submit(_rule_errors, xml, syntax).result(timeout=120)


def peppol_errors(xml: bytes) -> list[str]:
    return _saxon().submit(_peppol_errors, xml).result(timeout=120) + list(validate_xsd(xml)[1])


@cache
def _saxon() -> ProcessPoolExecutor:
    process = ProcessPoolExecutor(1, get_context("spawn"))
    atexit.register(process.shutdown)
    return process


def _rule_errors(xml: bytes, syntax: Syntax) -> list[str]:
    processor, stylesheet = _rules(syntax)
    node = processor.parse_xml(xml_text=xml.decode())
    report = etree.fromstring(stylesheet.transform_to_string(xdm_node=node).encode())
    fired = report.findall(f"{SVRL}fired-rule")
    assert fired, "no rule looked at the document"
    return [
        f"{each.get('id')}: {' '.join(''.join(each.itertext()).split())}"
        for each in report.findall(f"{SVRL}failed-assert")
    ]


def _peppol_errors(xml: bytes) -> list[str]:
    from peppol.rules import check_rules

    return [str(finding) for finding in check_rules(xml)]


@cache
def _cii_schema() -> Any:
    return etree.XMLSchema(etree.parse(str(SHIPPED / "facturx-en16931" / "Factur-X_EN16931.xsd")))


@cache
def _rules(syntax: Syntax) -> tuple[Any, Any]:
    from saxonche import PySaxonProcessor

    processor = PySaxonProcessor(license=False)
    compiler = processor.new_xslt30_processor()
    return processor, compiler.compile_stylesheet(stylesheet_file=str(STYLESHEETS[syntax]))
