"""The code blocks of a page, in their order, with what its source says of each.

A comment in front of a block says that it is not run, and why: `<!-- not run: it needs Docker -->`.
`<!-- exits 1 -->` says what the block's last command ends with. `title="models.toml"` behind the
language is the name of the file that the block is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RUN = ("sh", "python")
LANGUAGES = (*RUN, "toml", "json", "text", "yaml")
FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?: +title=\"(?P<title>[^\"]+)\")?\s*$")
COMMENT = re.compile(r"^ *<!-- (?:not run: (?P<reason>.+)|exits (?P<status>\d+)) -->$")


@dataclass(frozen=True, slots=True)
class Snippet:
    page: str
    line: int
    language: str
    text: str
    title: str | None = None
    not_run: str | None = None
    exits: int = 0

    @property
    def where(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """All that people read, but what `make docs` writes; paths from the root of the project."""
    found = [p for p in (ROOT / "docs").rglob("*.md") if p.parent != ROOT / "docs" / "reference"]
    return sorted(["README.md", *(str(path.relative_to(ROOT)) for path in found)])


def snippets(page: str) -> list[Snippet]:
    return [*_snippets(page, (ROOT / page).read_text().splitlines())]


def _snippets(page: str, lines: list[str]) -> Iterator[Snippet]:
    numbered = iter(enumerate(lines, 1))
    said: re.Match[str] | None = None
    for number, line in numbered:
        fence = FENCE.match(line)
        if fence is None:
            said = COMMENT.match(line) or (said if not line.strip() else None)
            continue
        body = []
        for _, inner in numbered:
            if inner.strip() == "```":
                break
            body.append(inner.removeprefix(fence["indent"]))
        yield Snippet(
            page,
            number,
            fence["language"],
            "\n".join(body) + "\n",
            fence["title"],
            said["reason"] if said else None,
            int(said["status"]) if said and said["status"] else 0,
        )
        said = None
