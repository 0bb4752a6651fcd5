"""litellm as a client of ours that ranks, in the shapes of Jina, vLLM and Cohere: it takes seconds
to import, so it has a process of its own. Prints what came as JSON."""

from __future__ import annotations

import json
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

BASE_URL, KEY = os.environ["SLUICE_BASE_URL"], os.environ["SLUICE_KEY"]
MODEL = os.environ["SLUICE_MODEL"]
WANTED: dict[str, Any] = {
    "query": "a fox",
    "documents": ["a red fox", "a bear", "a fox cub"],
    "top_n": 2,
    "api_key": KEY,
}


BASES = {"jina_ai": BASE_URL, "hosted_vllm": f"{BASE_URL}/v1", "cohere": BASE_URL}
"""Of each shape, as litellm's documents write it."""


def ranked(shape: str, **more: Any) -> dict[str, Any]:
    where = {"model": f"{shape}/{MODEL}", "api_base": BASES[shape]}
    answer: Any = litellm.rerank(**WANTED | where | more)
    results = answer.results
    return {
        "results": [[each["index"], each["relevance_score"]] for each in results],
        "documents": [(each.get("document") or {}).get("text") for each in results],
    }


def main() -> None:
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    found: dict[str, Any] = {shape: ranked(shape) for shape in BASES}
    found["bare"] = ranked("jina_ai", return_documents=False)
    try:
        ranked("jina_ai", api_key="sk-none")
    except Exception as error:
        found["wrong_key"] = type(error).__name__
    print(json.dumps(found))


if __name__ == "__main__":
    main()
