"""`make bench`: every benchmark of RESULTS.md in turn, on an otherwise idle machine."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = (
    "front",
    "redis_calls",
    "ledger_writer",
    "usage_queries",
    "engine",
    "embedding",
    "serving",
)


def main() -> int:
    for name in sys.argv[1:] or BENCHMARKS:
        print(f"== python -m bench.{name}", flush=True)
        status = subprocess.run([sys.executable, "-m", f"bench.{name}"]).returncode
        if status:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
