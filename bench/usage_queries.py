"""How long questions about usage take over a month of a thousand tenants.

    python -m bench.usage_queries [--tenants 1000] [--rows 2] [--rounds 20]

Fills the hourly and daily sums of SQLite with `rows` keys of every tenant in each hour of 30 days
(what batches of the writer would have summed; the log itself stays empty) and asks what pages and
calls ask. Times are of whole calls of `billing.queries`, milliseconds; CPU is this process'.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from billing.db.engine import Store, open_store
from billing.queries import GroupBy, spent_by_scopes, usage_summary
from billing.usage.rollup import (
    DAY_CELL,
    DAY_US,
    DIMENSIONS,
    HOUR_CELL,
    HOUR_US,
    ORG_DAY_CELL,
    SUMMED,
)
from migrations.run import migrate

HOURS = 720
MONTH_US = HOURS * HOUR_US
USED = {"requests": 7, "input": 308, "output": 392, "amount_nanousd": 700}
FILL = """
WITH RECURSIVE
  hour(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM hour WHERE n < :hours - 1),
  org(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM org WHERE n < :tenants - 1),
  one(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM one WHERE n < :rows - 1)
INSERT INTO usage_hour ({columns})
SELECT hour.n * 3600000000, printf('org_%032x', org.n), printf('proj_%032x', org.n),
  printf('key_%032x_%d', org.n, one.n),
  CASE one.n % 2 WHEN 0 THEN 'tale-large' ELSE 'tale-small' END,
  'default', 0, 'large-reserved', 'answered', '197001', {sums}
FROM hour, org, one
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tenants", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sl-") as folder:
        url = f"sqlite:///{Path(folder) / 'ledger.db'}"
        migrate(url)
        store = open_store(url)
        size = filled(store, arguments.tenants, arguments.rows)
        figures = {name: timed(ask, arguments.rounds) for name, ask in questions(store).items()}
        store.close()
    print(json.dumps({**size, **figures}, indent=2))


def filled(store: Store, tenants: int, rows: int) -> dict[str, int]:
    used = ", ".join(str(USED.get(name, 0)) for name in SUMMED)
    hours = FILL.format(columns=", ".join((*HOUR_CELL, *SUMMED)), sums=used)
    day, names = f"hour_us - hour_us % {DAY_US}", ", ".join(DIMENSIONS)
    days = (
        f"INSERT INTO usage_day ({', '.join((*DAY_CELL, *SUMMED))}) SELECT {day}, {names}, "
        f"{', '.join(f'sum({name})' for name in SUMMED)} FROM usage_hour GROUP BY {day}, {names}"
    )
    cell = ", ".join(ORG_DAY_CELL)
    org_days = (
        f"INSERT INTO usage_org_day ({cell}, {', '.join(SUMMED)}) SELECT {cell}, "
        f"{', '.join(f'sum({name})' for name in SUMMED)} FROM usage_day GROUP BY {cell}"
    )
    with store.write() as conn:
        conn.exec_driver_sql(hours, {"hours": HOURS, "tenants": tenants, "rows": rows})
        conn.exec_driver_sql(days)
        conn.exec_driver_sql(org_days)
        size = conn.exec_driver_sql(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        ).scalar_one()
    return {"rows": HOURS * tenants * rows, "bytes_per_row": size // (HOURS * tenants * rows)}


def questions(store: Store) -> dict[str, Callable[[], object]]:
    tenant, day_us = f"org_{7:032x}", 24 * HOUR_US
    last_day_us = MONTH_US - day_us
    by_day = [GroupBy.DAY, GroupBy.MODEL, GroupBy.KEY]
    return {
        "a tenant's month by day, model and key": lambda: usage_summary(
            store, tenant, 0, MONTH_US, by_day
        ),
        "a tenant's last week by hour": lambda: usage_summary(
            store, tenant, MONTH_US - 7 * day_us, MONTH_US, [GroupBy.HOUR]
        ),
        "every tenant's day by organization": lambda: usage_summary(
            store, None, last_day_us, MONTH_US, [GroupBy.ORG]
        ),
        "every tenant's month by organization": lambda: usage_summary(
            store, None, 0, MONTH_US, [GroupBy.ORG]
        ),
        "every tenant's month, both ends inside a day": lambda: usage_summary(
            store, None, 13 * HOUR_US, MONTH_US - 5 * HOUR_US, [GroupBy.ORG]
        ),
        "every tenant's month by day": lambda: usage_summary(
            store, None, 0, MONTH_US, [GroupBy.DAY]
        ),
        "what every scope has spent": lambda: spent_by_scopes(store),
    }


def timed(ask: Callable[[], object], rounds: int) -> dict[str, float]:
    times, cpu = [], time.process_time()
    for _ in range(rounds):
        begun = time.perf_counter()
        ask()
        times.append((time.perf_counter() - begun) * 1000)
    ordered = sorted(times)
    return {
        "cpu_ms": round((time.process_time() - cpu) * 1000 / rounds, 1),
        "p50_ms": round(statistics.median(ordered), 1),
        "p95_ms": round(ordered[max(0, round(0.95 * len(ordered)) - 1)], 1),
    }


if __name__ == "__main__":
    main()
