"""`python -m billing.invoicing_run --period YYYY-MM`: the invoice run as a command.

Prints the invoices of the month as JSON: drafts while it is open, final ones afterwards.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from sqlalchemy.exc import SQLAlchemyError

from billing.invoices import run_invoices
from billing.periods import BadPeriod
from billing.render.invoice_json import invoice_json
from billing.settings import BillingSettings
from billing.store.engine import open_store

MICROSECONDS = 1_000_000


def main() -> int:
    """0 also for drafts; 2 if the month is not one, or the ledger cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m billing.invoicing_run")
    parser.add_argument("--period", required=True, help="the month in UTC, as YYYY-MM")
    parser.add_argument("--org", help="only this organization")
    arguments = parser.parse_args()
    settings = BillingSettings()
    store = open_store(settings.sql)
    try:
        results = run_invoices(
            store,
            arguments.period,
            now_us=int(time.time() * MICROSECONDS),  # noqa: TID251 - a command's own clock
            series=settings.ledger.invoice_series,
            org=arguments.org,
        )
    except BadPeriod as error:
        print(error, file=sys.stderr)
        return 2
    except SQLAlchemyError as error:
        why = str(error).splitlines()[0]
        print(f"there is no ledger to read at {store.engine.url}: {why}", file=sys.stderr)
        return 2
    invoices = [invoice_json(result) for result in results]
    print(json.dumps({"period": arguments.period, "invoices": invoices}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
