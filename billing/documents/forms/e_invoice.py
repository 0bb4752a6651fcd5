"""An issued document as XML: CII or UBL, in the profiles EN 16931, XRechnung and Peppol BIS.

`factur-x` writes the elements in their order; its own check is never used. It is imported when the
first e-invoice is made, in the process that makes it. It knows one specification (BT-24), which
stands first in what it writes; that of a profile takes its place.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from billing.documents.document import Document
from billing.documents.forms.en16931 import SPECIFICATIONS, Profile, terms_of

LEVEL = "en16931"
UBL_VERSION = b"<cbc:UBLVersionID>2.1</cbc:UBLVersionID>"


class Syntax(StrEnum):
    CII = "cii"
    UBL = "ubl"


def xml_of(document: Document, syntax: Syntax, profile: Profile = Profile.EN16931) -> bytes:
    """Raises NotAnEInvoice where the document lacks what the profile asks for."""
    terms = terms_of(document, profile)
    xml = _cii(terms) if syntax is Syntax.CII else _ubl(terms)
    written = SPECIFICATIONS[Profile.EN16931].encode()
    return xml.replace(b">%b<" % written, b">%b<" % SPECIFICATIONS[profile].encode(), 1)


def _cii(terms: dict[str, Any]) -> bytes:
    from facturx.generate_xml import generate_cii_xml

    xml: bytes = generate_cii_xml(terms, level=LEVEL, check_xsd=False, check_schematron=False)
    return xml


def _ubl(terms: dict[str, Any]) -> bytes:
    """Without the version of UBL, which EN 16931 has no place for."""
    from facturx.generate_xml import generate_ubl_xml

    xml: bytes = generate_ubl_xml(terms, level=LEVEL, check_xsd=False, check_schematron=False)
    return xml.replace(UBL_VERSION, b"", 1)
