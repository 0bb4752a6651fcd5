"""A call to a cold pool, from the request to the whole answer: with a spare, without one, and to a
pool whose replica sleeps. Beside each time stands how far the fleet's prediction was from it.

`python -m bench.cold [--rounds 3] [--out bench/raw/cold.jsonl]` starts Sluice with the example
settings, once for each number of spares in turn, and lets a pool of its own go cold again and
again. One line a stack, with the load of the machine beside it.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from bench.running import ROOT, Running, new_folder
from bench.serving import asleep_to_one, start_s, zero_to_one

SPARES = (0, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "bench" / "raw" / "cold.jsonl")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--spares", type=int, nargs="*", default=SPARES)
    options = parser.parse_args()
    for _ in range(options.rounds):
        for spares in options.spares:
            with Running(new_folder(), port=18_095, SLUICE_RAY__SPARES=str(spares)) as sluice:
                figures = {"spares": spares, "load": os.getloadavg()[0], "start": start_s(sluice)}
                figures["memory_mb"] = sluice.memory_mb()
                figures["zero_to_one_s"] = zero_to_one(sluice)
                figures["asleep_to_one_s"] = asleep_to_one(sluice)
            print(json.dumps(figures), flush=True)
            with open(options.out, "a") as lines:
                lines.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
