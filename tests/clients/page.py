"""Writes docs/clients.md from the record of a run: `python -m tests.clients.page`.

Rows that stand there already stay. One that is new, or of another version, is written only if its
test is in the record as passed; else the command names it and fails.
"""

from __future__ import annotations

import json
import sys

from tests.clients.marks import ROOT, Mark, marks, version
from tests.clients.record import KEY, Passed

PAGE = ROOT / "docs" / "clients.md"
RECORD = ROOT / ".pytest_cache" / "v" / KEY
HEAD = """\
# Other people's clients

Each row is a test. It runs the named client, unchanged, against a real gateway. The version is the
one that the lock files pin. `make test` runs the clients that install within seconds, and
`make test-all` runs every one.

After such a run `python -m tests.clients.page` writes this page. A row is added only if its test
has passed. An empty cell under "Refused, and why" means that nothing was refused. "(Node)" marks a
client for Node whose name is also that of a Python package.

| Client | Version | What it does here | Refused, and why | Shown by |
|---|---|---|---|---|
"""


def row(mark: Mark) -> str:
    cells = (mark.client, version(mark.client), mark.does, mark.refused, f"`{mark.test}`")
    return "| " + " | ".join(cells) + " |\n"


def page() -> str:
    return HEAD + "".join(map(row, marks()))


def unproven(passed: Passed, written: str) -> list[Mark]:
    """What the page does not say yet, and no test in the record has shown."""
    return [
        mark
        for mark in marks()
        if row(mark) not in written
        and passed.get(mark.test, {}).get(mark.client) != version(mark.client)
    ]


def main() -> int:
    passed: Passed = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    lacking = unproven(passed, PAGE.read_text() if PAGE.exists() else "")
    for mark in lacking:
        print(f"not in the record of a run: {mark.client}: {mark.test}", file=sys.stderr)
    if not lacking:
        PAGE.write_text(page())
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main())
