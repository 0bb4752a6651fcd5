"""Cohere's own client as a client of ours, by both versions of its API. Prints what came as JSON.
Run by the environment of requirements/clients/cohere.lock."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import cohere

BASE_URL, KEY = os.environ["SLUICE_BASE_URL"], os.environ["SLUICE_KEY"]
MODEL = os.environ["SLUICE_MODEL"]
WANTED: dict[str, Any] = {
    "model": MODEL,
    "query": "a fox",
    "documents": ["a red fox", "a bear", "a fox cub"],
    "top_n": 2,
}

Found = dict[str, Any]


def ranked(answer: Any) -> Found:
    """Document by document, and what it says that it cost."""
    return {
        "results": [[each.index, each.relevance_score] for each in answer.results],
        "documents": [getattr(each, "document", None) is not None for each in answer.results],
        "search_units": answer.meta.billed_units.search_units,
    }


def refused(call: Callable[[], object]) -> list[Any]:
    """The class of the client's exception, its status and the field that it names."""
    try:
        call()
    except cohere.core.ApiError as error:
        body: Any = error.body
        return [type(error).__name__, error.status_code, body["error"]["param"]]
    return ["nothing", 200, None]


def main() -> None:
    by_v1 = cohere.Client(api_key=KEY, base_url=BASE_URL, max_retries=0)
    by_v2 = cohere.ClientV2(api_key=KEY, base_url=BASE_URL, max_retries=0)
    stranger = cohere.ClientV2(api_key="sk-none", base_url=BASE_URL, max_retries=0)
    found = {
        "v1": ranked(by_v1.rerank(**WANTED, return_documents=True)),
        "v1_objects": ranked(
            by_v1.rerank(**WANTED | {"documents": [{"text": d} for d in WANTED["documents"]]})
        ),
        "v2": ranked(by_v2.rerank(**WANTED, max_tokens_per_doc=64)),
        "rank_fields": refused(lambda: by_v1.rerank(**WANTED, rank_fields=["title"])),
        "no_documents": refused(lambda: by_v2.rerank(**WANTED | {"documents": []})),
        "unknown": refused(lambda: by_v2.rerank(**WANTED | {"model": "rerank-none"})),
        "wrong_key": refused(lambda: stranger.rerank(**WANTED)),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
