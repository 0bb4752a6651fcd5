"""What the documents name is there: every guard of a law, every path of the tree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUARD = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
NAMED = re.compile(r"`((?:gateway|billing|routing|workers|tests|bench|models)/[\w/.]*\w)`")
DOCUMENTS = (
    *("README.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md"),
    *("docs/design.md", "docs/failures.md"),
)


def test_every_law_has_a_guard_that_exists() -> None:
    laws = [
        line
        for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines()
        if re.match(r"\| \d+[a-z]? \| ", line)
    ]
    laws = [line for line in laws if not line.split("|")[2].strip().startswith("`")]
    numbers = [line.split("|")[1].strip() for line in laws]
    assert len(laws) >= 25 and "8b" in numbers, numbers
    for law in laws:
        guards = GUARD.findall(law)
        assert guards or "ledger verify" in law, law
        for path, name in guards:
            assert (ROOT / path).is_file(), path
            if name:
                assert re.search(rf"def {name}\(", (ROOT / path).read_text()), name


def test_every_pitfall_has_a_row_and_every_test_it_names_is_there() -> None:
    lines = (ROOT / "docs" / "pitfalls.md").read_text().splitlines()
    rows = {found[1]: line for line in lines if (found := re.match(r"\| (G\d+|S[a-z]) \|", line))}
    assert rows.keys() == {f"G{n}" for n in range(1, 51)} | {
        f"S{letter}" for letter in "abcdefghijklm"
    }
    for number, row in rows.items():
        for path, name in GUARD.findall(row):
            assert re.search(rf"def {name}\(", (ROOT / path).read_text()), name
            assert f"_{number.lower()}_" in name, row
    named = {name for _, name in GUARD.findall("\n".join(lines))}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in re.findall(r"def (test_(?:g\d+|s[a-m])_\w+)\(", path.read_text()):
            assert name in named, f"{name} is not in docs/pitfalls.md"


def test_every_way_to_fail_has_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "failures.md").read_text()
    matrix = page.split("\n## ")[0].splitlines()
    rows = [line for line in matrix if line.startswith("| ")][1:]
    assert len(rows) >= 15, "every row of the failure matrix"
    assert [row for row in rows if not GUARD.search(row)] == []
    for path, name in GUARD.findall(page):
        assert not name or re.search(rf"def {name}\(", (ROOT / path).read_text()), name


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_a_document_links_or_names_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    named = NAMED.findall(text)
    for path in [*links, *named]:
        folder = (ROOT / document).parent if path in links else ROOT
        assert (folder / path).exists(), f"{document}: {path}"


def test_tree_of_the_architecture_is_the_tree() -> None:
    tree = (ROOT / "ARCHITECTURE.md").read_text().split("## The tree")[1].split("```")[1]
    folder = ROOT
    for line in tree.strip().splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = ROOT / name
            assert (ROOT / name).exists(), name
        else:
            assert (folder / name).exists(), f"{folder.name}/{name}"


def test_readme_is_short_and_everything_else_is_a_page() -> None:
    """A sentence, the picture, what is different, two commands, one example, links."""
    lines = (ROOT / "README.md").read_text().splitlines()
    assert 120 <= len(lines) <= 150, len(lines)


PROSE = (
    *(ROOT / "README.md", ROOT / "SECURITY.md"),
    *sorted(
        path
        for folder in ("", "concepts", "calls", "guides")
        for path in (ROOT / "docs" / folder).glob("*.md")
    ),
)
WORDS_MAX = 30
"""Of a sentence that a tired operator reads once; most have fewer than twenty."""


@pytest.mark.parametrize("page", PROSE, ids=lambda path: path.stem)
def test_sentences_of_a_page_are_short(page: Path) -> None:
    text = re.sub(r"```.*?```", ".", page.read_text(), flags=re.DOTALL)
    text = re.sub(r"(?m)^(\|.*|#.*|<!--.*|    .*)$", ".", text)
    for sentence in re.split(r"(?<=[.:!?])\s+|\n\n|\n- ", text):
        assert len(sentence.split()) <= WORDS_MAX, sentence
