"""PDFs: three claims at once, the e-invoice inside, the same bytes each time, any text in it."""

import io
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from string import ascii_uppercase
from unicodedata import east_asian_width

import pikepdf
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from lxml import etree
from pypdf import PdfReader

from billing.documents.document import (
    Annex,
    AnnexRow,
    Document,
    DocumentKind,
    Reduction,
    TaxCategory,
)
from billing.documents.forms.countries import country_name
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.glyphs import (
    BREAK,
    MISSING,
    WORD_MAX,
    built_in,
    printable,
    with_glyphs,
)
from billing.documents.forms.json_text import json_of
from billing.documents.forms.pdf import pdf_of
from billing.documents.forms.words import ENGLISH, GERMAN, LANGUAGES, day_text, grouped, money
from billing.documents.receipt_document import receipt_document
from tests.billing.documents.cases import CASES
from tests.billing.documents.made import (
    AMERICAN,
    FIRST_DAY,
    FRENCH,
    REVERSE,
    SELLER,
    STANDARD,
    document,
    line,
)
from tests.laws.examples import examples

COUNTRIES = 249
ANNEXES = [
    Annex("project", (AnnexRow("prj_1", 3, 1_234_567, 0, 740_740_200),)),
    Annex(
        "day",
        tuple(
            AnnexRow((FIRST_DAY + timedelta(days=n)).isoformat(), 1, 41_152, 0, 24_691_340 * n)
            for n in range(30)
        ),
    ),
]


def xmp(pdf: bytes) -> str:
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        metadata: bytes = opened.Root.Metadata.read_bytes()
    return metadata.decode()


def text(pdf: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)


@pytest.mark.parametrize("name", ["domestic", "credit_note", "reverse_charge", "hostile_text"])
def test_pdf_claims_pdf_a_3a_and_pdf_ua_1_and_factur_x_at_once(name: str) -> None:
    made = CASES[name]
    pdf = pdf_of(made)
    metadata = xmp(pdf)
    for claim in (
        "<pdfaid:part>3</pdfaid:part>",
        "<pdfaid:conformance>A</pdfaid:conformance>",
        "<pdfuaid:part>1</pdfuaid:part>",
        "<fx:ConformanceLevel>EN 16931</fx:ConformanceLevel>",
        "<fx:DocumentFileName>factur-x.xml</fx:DocumentFileName>",
        "<xmp:CreateDate>2026-12-01T00:00:00Z</xmp:CreateDate>",
        "urn:factur-x:pdfa:CrossIndustryDocument:invoice:1p0#</pdfaSchema:namespaceURI>",
    ):
        assert claim in metadata, claim
    etree.fromstring(metadata.encode())
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        root = opened.Root
        assert root.MarkInfo.Marked and root.StructTreeRoot and root.OutputIntents
        assert "/Filter" not in root.Metadata
        (attached,) = root.AF
        assert attached.AFRelationship == "/Alternative"
        assert attached.EF.F.read_bytes() == xml_of(made, Syntax.CII)
        assert attached.EF.F.Subtype == "/text/xml"
        assert list(opened.attachments) == ["factur-x.xml"]


def test_pages_say_what_the_document_says() -> None:
    made = document(annexes=ANNEXES, notes=("Thank you for the order.",))
    shown = text(pdf_of(made))
    for words in (
        "SLU-2026-000001",
        SELLER.name,
        "Beispiel AG",
        "DE129273398",
        "1,234,567 tokens",
        "0.74",
        "19 %",
        "0.88",
        "Usage by project",
        "30 Nov 2026",
        "0.740740200",
        "Thank you for the order.",
    ):
        assert words in shown, words


def test_german_document_speaks_german() -> None:
    shown = text(pdf_of(document(language="de", annexes=ANNEXES)))
    assert "Rechnung" in shown and "1.234.567 Token" in shown and "0,88" in shown
    assert "Zahlbar bis: 31.12.2026" in shown
    assert "Amount" not in shown
    assert ENGLISH.keys() == GERMAN.keys()


def test_reverse_charge_and_the_credited_invoice_are_named() -> None:
    shown = text(pdf_of(document([line(tax=REVERSE)], buyer=FRENCH)))
    assert "Reverse charge (VATEX-EU-AE)" in shown
    credited = text(pdf_of(CASES["credit_note"]))
    assert "Credit note" in credited and "Refers to: SLU-2026-000001" in credited
    assert "Reason: Latency was above what was agreed" in credited
    for word in ("Please name", "Due by", "30 days net"):
        assert word not in credited


def test_draft_is_marked_and_holds_no_e_invoice() -> None:
    pdf = pdf_of(document(number="", issued=None, due=None))
    assert "This is a draft" in text(pdf)
    assert "pdfuaid" in xmp(pdf) and "fx:" not in xmp(pdf)
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        assert list(opened.attachments) == []


def test_long_document_has_a_summary_first_and_every_line_behind_it() -> None:
    lines = [line(seq, project=f"prj_{seq % 11}") for seq in range(1, 61)]
    pages = PdfReader(io.BytesIO(pdf_of(document(lines)))).pages
    first, others = pages[0].extract_text(), "".join(page.extract_text() for page in pages[1:])
    assert "Summary" in first and "3 others" in first
    assert first.count("1,234,567") == 0 and others.count("1,234,567 tokens") == 60


def test_same_document_gives_the_same_bytes_in_another_process() -> None:
    program = (
        "import hashlib, sys; from billing.documents.forms.pdf import pdf_of;"
        "from tests.billing.documents.cases import CASES;"
        "print(hashlib.sha256(pdf_of(CASES['domestic'])).hexdigest())"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ".", "TZ": zone},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed, zone in (("1", "UTC"), ("2", "Asia/Tokyo"))
    }
    assert len(told) == 1


def test_mark_that_no_font_sets_is_left_out_of_the_pages_and_not_of_the_e_invoice() -> None:
    marked = "\u27dc\u05b5"
    pdf = pdf_of(document([line(description=marked)]))
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        assert marked.encode() in opened.Root.AF[0].EF.F.read_bytes()
    assert "\u27dc" in text(pdf)


def test_names_of_500_characters_leave_room_for_taxes_and_payment_and_stand_whole_in_the_data() -> (
    None
):
    made = CASES["long_names"]
    pdf = pdf_of(made)
    first = PdfReader(io.BytesIO(pdf)).pages[0].extract_text()
    assert "Taxes" in first and "Please name SLU-2026-000001" in first
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        assert made.heading.buyer.name.strip().encode() in opened.Root.AF[0].EF.F.read_bytes()
    assert made.heading.buyer.name in json_of(made).decode()


def test_long_word_is_copied_from_the_page_without_its_places_to_break() -> None:
    name = "prj_with_a_very_long_name_without_any_space"
    pdf = pdf_of(document([line(project=name)]))
    assert name in text(pdf).replace("\n", "") and BREAK in printable(name)
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        streams = [each.read_bytes() for each in opened.objects if isinstance(each, pikepdf.Stream)]
    maps = [each.lower() for each in streams if b"begincmap" in each]
    assert maps and not any(b"<200b>" in each for each in maps)
    assert BREAK not in xmp(pdf_of(document(seller=replace(SELLER, name="x" * 50))))


def test_addresses_name_the_country_and_end_as_it_is_used_there() -> None:
    shown = text(pdf_of(document(buyer=AMERICAN)))
    assert "10119 Berlin\nGermany" in shown and "San Francisco, CA 94105\nUnited States" in shown
    german = text(pdf_of(document(buyer=AMERICAN, language="de")))
    assert "Deutschland" in german and "Vereinigte Staaten" in german
    assert country_name("ZZ", "de") == "ZZ"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_country_of_iso_3166_has_a_name_that_is_printed_whole(language: str) -> None:
    codes = [first + second for first in ascii_uppercase for second in ascii_uppercase]
    named = [name for code in codes if (name := country_name(code, language)) != code]
    assert len(set(named)) == COUNTRIES
    assert all(printable(name) == name for name in named if len(name) <= WORD_MAX)
    assert not any(MISSING in with_glyphs(name, built_in()) for name in named)


def test_page_says_what_its_mark_for_a_missing_character_stands_for() -> None:
    shown = text(pdf_of(document(buyer=replace(FRENCH, name="東京"))))
    assert f"{MISSING} stands for a character" in shown
    assert "stands for a character" not in text(pdf_of(document()))


def test_discounts_that_no_page_has_room_for_go_on_with_the_next() -> None:
    reduced = [Reduction(n, "discount", f"discount {n}", 1_000, STANDARD) for n in range(2, 92)]
    first, second = PdfReader(io.BytesIO(pdf_of(document(reductions=reduced)))).pages[:2]
    assert "discount 2" in first.extract_text()
    assert "discount 91" in second.extract_text() and "Net total" in second.extract_text()


def test_subtotal_stands_only_where_something_lowers_it() -> None:
    assert "Subtotal" in text(pdf_of(CASES["discount"]))
    assert "Subtotal" not in text(pdf_of(document()))


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(names, names)
@example("שלום\u202eabc", "مرحبا بالعالم")
@example("你好 \U0001f600 e\u0301\u0302\u0323", "x" * 500)
@example('#import "/etc/passwd" $x$ *_`', "<b>\x00&")
def test_any_text_makes_a_document_and_twice_the_same_one(buyer: str, project: str) -> None:
    made = document([line(project=project, description=buyer)], buyer=replace(FRENCH, name=buyer))
    assert pdf_of(made) == pdf_of(made)


@given(st.text(st.characters(exclude_categories=["M"])))
@example("a" * 100)
@example("株" * 100)
def test_printable_text_has_no_steering_and_places_to_break(anything: str) -> None:
    shown = printable(anything)
    for word in (word for run in shown.split() for word in run.split(BREAK)):
        assert len(word) <= WORD_MAX or all(east_asian_width(each) in "WF" for each in word)
    assert printable("\u202eabc\u2066") == "abc"
    assert printable(shown.replace(BREAK, "")).replace(BREAK, "") == shown.replace(BREAK, "")


def test_letter_keeps_its_marks_and_what_a_virama_joins_to_it() -> None:
    accented, joined = "e\u0323\u0302\u0324", "\u0915\u094d\u0937\u093f"
    for letter in (accented, joined):
        assert all(not len(part) % len(letter) for part in printable(letter * 50).split(BREAK))
    assert BREAK not in printable("\u0e01" * 50)


@given(st.text())
def test_character_without_a_glyph_has_the_mark_and_each_other_one_itself(anything: str) -> None:
    shown = with_glyphs({"a": [anything, 1]}, built_in())["a"][0]
    assert with_glyphs(f"a你{BREAK}b", built_in()) == f"a{MISSING}{BREAK}b"
    for before, after in zip(anything, shown, strict=True):
        assert after == before if ord(before) in built_in() or before == BREAK else after == MISSING


def test_numbers_and_days_are_written_as_the_language_has_them() -> None:
    assert (money(-123_456_789, "en"), money(-123_456_789, "de")) == (
        "\u22121,234,567.89",
        "\u22121.234.567,89",
    )
    assert grouped("0.600", "de") == "0,600"
    assert (day_text(FIRST_DAY, "en"), day_text(FIRST_DAY, "de")) == ("1 Nov 2026", "01.11.2026")


@pytest.mark.parametrize("kind", DocumentKind)
def test_every_kind_has_a_page(kind: DocumentKind) -> None:
    made: Document = document(kind=kind)
    assert made.taxes[0].treatment.category is TaxCategory.STANDARD
    assert pdf_of(made).startswith(b"%PDF-1.7")


@pytest.mark.parametrize("language", ["en", "de"])
def test_receipt_says_what_came_and_no_tax(language: str) -> None:
    """Its text of money and names is the tenant's, and it is no e-invoice."""
    top_up = {
        **{"top_up_id": "top_1", "org": "org_1", "external_id": "wire #1 *x*", "currency": "USD"},
        **{"amount_cents": 123_456, "note": "$x$ <b>", "series": "SLU-RC-2026", "number": 1},
        **{"received_us": 1_795_000_000_000_000, "created_us": 1_795_000_100_000_000},
    }
    parties = {"seller": SELLER, "buyer": FRENCH}
    receipt = receipt_document(top_up, "SLU-RC-2026-000001", **parties, language=language)
    pdf = pdf_of(receipt)
    words = LANGUAGES[language]
    said = text(pdf)
    for each in (words["receipt"], words["received"], "wire #1 *x*", "$x$ <b>", FRENCH.name):
        assert each in said
    assert money(123_456, language) in said and words["taxes"] not in said.split("\n")
    assert "<pdfuaid:part>1</pdfuaid:part>" in xmp(pdf) and "factur-x" not in xmp(pdf)
    assert pdf == pdf_of(receipt)
