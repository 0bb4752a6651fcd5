"""The invoice run as a process that kills itself at one statement to SQL: `die` counts them from 1,
0 is never."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from sqlalchemy import event

from billing.db.engine import open_store
from billing.invoices.months import run_invoices

if __name__ == "__main__":
    url, month, now_us, die = sys.argv[1:]
    store = open_store(url)
    left = int(die)

    def count(*_: Any) -> None:
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(store.engine, "before_cursor_execute", count)
    run_invoices(store, month, now_us=int(now_us), series="SLU")
    print(int(die) - left)
    store.close()
