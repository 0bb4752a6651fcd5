"""An issued document as XML: CII or UBL, in the profiles EN 16931, XRechnung and Peppol BIS.

`factur-x` writes the elements in their order; its own check is never used. It is imported when the
first e-invoice is made, in the process that makes it. The same document gives the same bytes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from billing.documents.document import Document
from billing.documents.forms.en16931 import SPECIFICATIONS, Profile, terms_of

LEVEL = "en16931"


class Syntax(StrEnum):
    CII = "cii"
    UBL = "ubl"


def xml_of(document: Document, syntax: Syntax, profile: Profile = Profile.EN16931) -> bytes:
    """Raises NotAnEInvoice where the document lacks what the profile asks for."""
    terms = terms_of(document, profile)
    tree = _cii(terms) if syntax is Syntax.CII else _ubl(terms)
    return _written(tree, SPECIFICATIONS[profile])


def _cii(terms: dict[str, Any]) -> Any:
    from facturx.generate_xml import generate_cii_xml
    from lxml import etree

    xml = generate_cii_xml(terms, level=LEVEL, check_xsd=False, check_schematron=False)
    return etree.fromstring(xml)


def _ubl(terms: dict[str, Any]) -> Any:
    from facturx.generate_xml import generate_ubl_xml
    from lxml import etree

    xml = generate_ubl_xml(terms, level=LEVEL, check_xsd=False, check_schematron=False)
    root = etree.fromstring(xml)
    for version in root.findall("{*}UBLVersionID"):
        root.remove(version)
    return root


def _written(root: Any, specification: str) -> bytes:
    """With the specification that the profile names (BT-24)."""
    from lxml import etree

    named = root.find(".//{*}GuidelineSpecifiedDocumentContextParameter/{*}ID")
    if named is None:
        named = root.find("{*}CustomizationID")
    named.text = specification
    etree.indent(root)
    written: bytes = etree.tostring(root, xml_declaration=True, encoding="UTF-8")
    return written + b"\n"
