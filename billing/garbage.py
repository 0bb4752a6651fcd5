"""How often the ledger process looks for cycles of garbage.

Booking a batch makes tens of thousands of rows that live until its commit and hold no cycle. With
Python's own settings the collector walks them again and again: a quarter of the writer's CPU.
"""

from __future__ import annotations

import gc

NEW_OBJECTS = 100_000
"""Between two looks at the youngest: about the rows of two batches."""
YOUNG_LOOKS, MIDDLE_LOOKS = 50, 100


def collect_less() -> None:
    """For a process that books; what is there by now is never looked at again."""
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, YOUNG_LOOKS, MIDDLE_LOOKS)
