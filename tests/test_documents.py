"""What the documents name is there: every guard of a law, every path of the tree."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GUARD = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
NAMED = re.compile(r"`((?:gateway|billing|routing|workers|tests|bench|models)/[\w/.]*\w)`")
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "SECURITY.md", "CHANGELOG.md")


def test_every_law_has_a_guard_that_exists() -> None:
    laws = [
        line
        for line in (ROOT / "ARCHITECTURE.md").read_text().splitlines()
        if re.match(r"\| \d+ \| ", line)
    ]
    laws = [line for line in laws if not line.split("|")[2].strip().startswith("`")]
    assert len(laws) >= 10
    for law in laws:
        guards = GUARD.findall(law)
        assert guards or "ledger verify" in law, law
        for path, name in guards:
            assert (ROOT / path).is_file(), path
            if name:
                assert re.search(rf"def {name}\(", (ROOT / path).read_text()), name


def test_every_pitfall_has_a_row_and_every_test_it_names_is_there() -> None:
    lines = (ROOT / "docs" / "pitfalls.md").read_text().splitlines()
    rows = {int(found[1]): line for line in lines if (found := re.match(r"\| G(\d+) \|", line))}
    assert rows.keys() == set(range(1, 51))
    for number, row in rows.items():
        for path, name in GUARD.findall(row):
            assert re.search(rf"def {name}\(", (ROOT / path).read_text()), name
            assert f"_g{number}_" in name, row
    named = {name for _, name in GUARD.findall("\n".join(lines))}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for name in re.findall(r"def (test_g\d+_\w+)\(", path.read_text()):
            assert name in named, f"{name} is not in docs/pitfalls.md"


def test_every_way_to_fail_has_a_test_that_is_there() -> None:
    lines = (ROOT / "docs" / "failures.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("| ")][1:]
    assert len(rows) >= 15, "every row of the failure matrix"
    for row in rows:
        guards = GUARD.findall(row)
        assert guards, row
        for path, name in guards:
            assert re.search(rf"def {name}\(", (ROOT / path).read_text()), name


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_file_a_document_links_or_names_exists(document: str) -> None:
    text = (ROOT / document).read_text()
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    named = NAMED.findall(text)
    for path in [*links, *named]:
        assert (ROOT / path).exists(), f"{document}: {path}"


def test_tree_of_the_readme_is_the_tree() -> None:
    tree = (ROOT / "README.md").read_text().split("## The tree")[1].split("```")[1]
    folder = ROOT
    for line in tree.strip().splitlines():
        name = line.split()[0]
        if not line.startswith(" "):
            folder = ROOT / name
            assert (ROOT / name).exists(), name
        else:
            assert (folder / name).exists(), f"{folder.name}/{name}"
