"""`python -m reference FOLDER` writes the reference pages into a folder."""

import sys
from pathlib import Path

from reference.pages import pages


def main() -> int:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
