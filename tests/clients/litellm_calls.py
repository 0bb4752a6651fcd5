"""litellm as a client of ours, in a process of its own: it takes seconds to import.

Prints one JSON document of what it got, for the test that started it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

MESSAGES = [{"role": "user", "content": "Tell me a story about a fox."}]


def main() -> None:
    base_url, key = os.environ["SLUICE_BASE_URL"], os.environ["SLUICE_KEY"]
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    by_openai: dict[str, Any] = {
        "model": "openai/sluice-small",
        "api_base": f"{base_url}/v1",
        "api_key": key,
        "messages": MESSAGES,
        "max_tokens": 8,
        "num_retries": 0,
    }
    by_anthropic = by_openai | {"model": "anthropic/sluice-small", "api_base": base_url}
    json.dump(
        {
            "whole": litellm.completion(**by_openai).model_dump(),
            "streamed": _streamed(by_openai),
            "anthropic": litellm.completion(**by_anthropic).model_dump(),
            "anthropic_streamed": _streamed(by_anthropic),
            "embedding": _embedding(base_url, key),
            "unknown": _refused(by_openai | {"model": "openai/gpt-none"}),
            "wrong_key": _refused(by_openai | {"api_key": "sk-sluice-wrong"}),
            "bad": _refused(by_openai | {"temperature": 9}),
        },
        sys.stdout,
        default=str,
    )


def _streamed(wanted: dict[str, Any]) -> str:
    chunks = litellm.completion(**wanted, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def _embedding(base_url: str, key: str) -> list[int]:
    found = litellm.embedding(
        model="openai/minilm",
        input=["a fox", "a bear"],
        api_base=f"{base_url}/v1",
        api_key=key,
        encoding_format="float",
    )
    return [len(row["embedding"]) for row in found.data]


def _refused(wanted: dict[str, Any]) -> str:
    """The class of the error."""
    try:
        litellm.completion(**wanted)
    except Exception as refused:
        return type(refused).__name__
    return "nothing"


if __name__ == "__main__":
    main()
