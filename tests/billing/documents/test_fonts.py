"""Fonts that an operator names for what the built-in ones lack, and text from the right."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import date
from pathlib import Path

import pikepdf
import pytest
from pypdf import PdfReader

from billing.documents.document import Document
from billing.documents.font_files import check_fonts
from billing.documents.forms.fonts import NoFont, fonts_of
from billing.documents.forms.glyphs import MISSING, built_in
from billing.documents.forms.pdf import pdf_of
from billing.documents.press import Form, Press, PressFailed
from tests.billing.documents.made import FRENCH, document, line

SUN, SHEEN, NOTHING = "日", "ݜ", "本"
FAMILY = "Tiny Test Sans"
OCTOBER = date(2026, 10, 1)
STEERING = set("\u200e\u200f\u202a\u202b\u202c\u202d\u2066\u2067\u2068\u2069")


@pytest.fixture(scope="module")
def font(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("fonts") / "tiny.ttf", SUN + SHEEN)


def written(path: Path, characters: str, *, family: str = FAMILY, style: str = "Regular") -> Path:
    """A font in which each character is a square."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    names = [f"g{ord(each):x}" for each in characters]
    pen = TTGlyphPen(None)
    for go, point in ((pen.moveTo, (50, 0)), (pen.lineTo, (50, 700)), (pen.lineTo, (700, 700))):
        go(point)
    pen.closePath()
    glyphs = [".notdef", *names]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(glyphs)
    builder.setupCharacterMap(dict(zip(map(ord, characters), names, strict=True)))
    builder.setupGlyf(dict.fromkeys(glyphs, pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys(glyphs, (800, 50)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    full = f"{family} {style}"
    builder.setupNameTable(
        {
            "familyName": family,
            "styleName": style,
            "fullName": full,
            "psName": full.replace(" ", ""),
        }
    )
    weight = 700 if style == "Bold" else 400
    builder.setupOS2(sTypoAscender=800, usWinAscent=800, usWinDescent=200, usWeightClass=weight)
    builder.setupPost()
    builder.save(path)
    return path


def named(name: str) -> Document:
    return document([line(description=name)], buyer=replace(FRENCH, name=name))


def text(pdf: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)


def test_letter_of_a_named_font_is_printed_embedded_and_keeps_every_claim(font: Path) -> None:
    name = f"{SUN} {SHEEN}"
    pdf = pdf_of(named(name), (str(font),))
    shown = text(pdf)
    assert SUN in shown and SHEEN in shown and MISSING not in shown
    with pikepdf.open(io.BytesIO(pdf)) as opened:
        metadata = opened.Root.Metadata.read_bytes()
        assert name.encode() in opened.Root.AF[0].EF.F.read_bytes()
        fonts = [str(each.FontName) for each in opened.objects if is_embedded(each)]
    for claim in (
        b"<pdfaid:conformance>A<",
        b"<pdfuaid:part>1<",
        b"<fx:ConformanceLevel>EN 16931<",
    ):
        assert claim in metadata
    assert any("Tiny" in each for each in fonts)
    assert pdf == pdf_of(named(name), (str(font),))
    assert SUN not in text(pdf_of(named(name))) and MISSING in text(pdf_of(named(name)))


def is_embedded(each: pikepdf.Object) -> bool:
    is_font = isinstance(each, pikepdf.Dictionary) and each.get("/Type") == "/FontDescriptor"
    return is_font and ("/FontFile2" in each or "/FontFile3" in each)


def test_document_of_built_in_letters_has_the_same_bytes_with_and_without_a_font(
    font: Path,
) -> None:
    assert pdf_of(document(), (str(font),)) == pdf_of(document())


def test_folder_gives_all_its_fonts_and_two_weights_what_both_have(tmp_path: Path) -> None:
    written(tmp_path / "a.ttf", SUN + NOTHING)
    written(tmp_path / "b.TTF", SUN, style="Bold")
    (tmp_path / "readme.txt").write_text("no font")
    (tmp_path / "more").mkdir()
    written(tmp_path / "more" / "c.ttf", SHEEN, family="Other Test Sans")
    fonts = fonts_of((str(tmp_path),))
    assert fonts.families == (FAMILY, "Other Test Sans")
    assert fonts.covered - built_in() == {ord(SUN), ord(SHEEN)} - built_in()


def left_of(pdf: bytes, *words: str) -> list[float]:
    """How far from the left each word stands on the first page, where it is found first."""
    found: dict[str, float] = {}

    def note(shown: str, of_page: list[float], of_text: list[float], *_: object) -> None:
        for word in words:
            if word in shown:
                found.setdefault(word, of_page[0] * of_text[4] + of_page[4])

    PdfReader(io.BytesIO(pdf)).pages[0].extract_text(visitor_text=note)
    return [found[word] for word in words]


@pytest.mark.parametrize("letters", ["שלום", "شركة"])
def test_text_from_the_right_goes_to_the_left_and_moves_nothing_beside_it(letters: str) -> None:
    made = document([line(description=f"{letters} ABC", project="", service_start=OCTOBER)])
    pdf = pdf_of(made)
    latin, first = left_of(pdf, "ABC", letters[0])
    assert latin < first
    begun, ended = left_of(pdf, "1 Oct 2026", "30 Nov 2026")
    assert latin < first < begun <= ended
    assert not STEERING & set(text(pdf))


@pytest.mark.parametrize("content", [None, b"", b"<html>"])
def test_file_that_is_no_font_is_refused_in_one_line(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "f.ttf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^no font in '[^']*f\.ttf': [^\n]*$"):
        check_fonts(path)
    with pytest.raises(NoFont, match=r"^no font in '[^']*f\.ttf'"):
        fonts_of((str(path),))


def test_folder_without_a_font_and_a_file_of_another_name_are_refused(
    font: Path, tmp_path: Path
) -> None:
    renamed = tmp_path / "font.txt"
    renamed.write_bytes(font.read_bytes())
    for path in (tmp_path, renamed):
        with pytest.raises(ValueError, match="no font in"):
            check_fonts(path)
    check_fonts(font)
    check_fonts(font.parent)


@pytest.fixture
def broken(font: Path, tmp_path: Path) -> Path:
    path = tmp_path / "broken.ttf"
    path.write_bytes(font.read_bytes()[:100])
    return path


async def test_press_prints_with_the_fonts_that_it_was_given(font: Path, broken: Path) -> None:
    press = Press(fonts=(str(font),))
    assert SUN in text(await press.make(Form.PDF, named(SUN)))
    await press.close()
    check_fonts(broken)
    press = Press(fonts=(str(broken),))
    with pytest.raises(PressFailed, match=r"NoFont: no font in '.*broken\.ttf'"):
        await press.make(Form.PDF, document())
    await press.close()
