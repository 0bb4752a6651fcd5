"""What it takes to count the prompt of a call for `auto`, by models that share no tokenizer.

Run as `python -m bench.prompt_counts`. Each model has the tokenizer of `models/` for itself, loaded
anew. "each": every model counts, as it was before. "held": one tokenizer estimates, and those count
on whose models the call may end. Processor time in milliseconds, the best of five.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from timeit import repeat

from bench.running import ROOT
from billing.prices.tariff import Prices
from gateway.call.estimates import counted, lengths_of
from gateway.call.open_call import Quote
from gateway.catalog.catalog import Catalog
from gateway.catalog.tokenizers import CheckpointTokens
from gateway.wire.bodies.chat import parse_chat
from routing.types import Call, Candidate, CapacityClass, Decision, Model, Tier

TALE = "Once upon a time a small brown fox ran over the quiet hill to find an old red boat. "


def main() -> None:
    folder = next(file.parent for file in sorted(Path(ROOT / "models").rglob("tokenizer.json")))
    counters = {f"m{n}": CheckpointTokens(folder) for n in range(50)}
    for count in (1, 5, 50):
        for tokens in (100, 1_000, 8_000):
            print(json.dumps(_row(dict(list(counters.items())[:count]), tokens)), flush=True)


def _row(counters: dict[str, CheckpointTokens], tokens: int) -> dict[str, float]:
    body = {"model": "auto", "messages": [{"role": "user", "content": TALE * (tokens // 20)}]}
    request = parse_chat(json.dumps(body).encode())
    models = {name: Model(name, str(ROOT), 1_000_000, 256, 1, 0.5) for name in counters}
    catalog = Catalog(models=models, counters=counters)
    price = Prices("pv", "m", "default", False, 1, 1, 1)
    quote = Quote("pv", dict.fromkeys(models, price))
    candidates = tuple(
        Candidate(n, n, "v", CapacityClass.RESERVED, Tier.DEFAULT, True, 0, 0, 0.0, "warm")
        for n in models
    )

    def held() -> int:
        lengths = lengths_of(list(models.values()), counters, request, 0)
        sums = {name: sum(each) for name, each in lengths.of.items()}
        call = Call(
            *("req", "org", "proj", "key", "auto", tuple(models), Tier.DEFAULT, True, sums),
            output_tokens_max=16,
            arrived_s=0.0,
            deadline_s=60.0,
            longest_prompt_tokens=sums,
            estimated=lengths.estimated,
        )
        counted(call, quote, Decision("r", 1, candidates), request, catalog)
        return sums["m0"]

    def each() -> None:
        for counter in counters.values():
            request.payload.prompt_tokens(counter)

    took = {
        f"{name}_ms": round(min(repeat(work, timer=process_time, number=1, repeat=5)) * 1e3, 2)
        for name, work in (("each", each), ("held", held))
    }
    return {"models": len(models), "prompt_tokens": held()} | took


if __name__ == "__main__":
    main()
