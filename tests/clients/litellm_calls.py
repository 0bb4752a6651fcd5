"""litellm as a client of ours, in a process of its own: it takes seconds to import.

Prints one JSON document of what it got, for the test that started it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

MESSAGES = [{"role": "user", "content": "Tell me a story about a fox."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {
                "town": {"enum": ["Ulm", "Bonn"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
            },
            "required": ["town", "days"],
            "additionalProperties": False,
        },
    },
}
USING = {
    "tools": [WEATHER],
    "tool_choice": {"type": "function", "function": {"name": "weather"}},
    "max_tokens": 64,
}
FORM = {
    "type": "json_schema",
    "json_schema": {
        "name": "weather",
        "description": "The weather of a town.",
        "strict": True,
        "schema": WEATHER["function"]["parameters"],  # type: ignore[index]
    },
}

Wanted = dict[str, Any]


def main() -> None:
    base_url, key = os.environ["SLUICE_BASE_URL"], os.environ["SLUICE_KEY"]
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    by_openai: Wanted = {
        "model": "openai/sluice-small",
        "api_base": f"{base_url}/v1",
        "api_key": key,
        "messages": MESSAGES,
        "max_tokens": 8,
        "max_retries": 0,
    }
    by_anthropic = by_openai | {"model": "anthropic/sluice-small", "api_base": base_url}
    limited = by_openai | {"api_key": os.environ["SLUICE_KEY_LIMITED"]}
    broke = by_openai | {"api_key": os.environ["SLUICE_KEY_BROKE"], "max_retries": 3}
    json.dump(
        {
            "whole": litellm.completion(**by_openai).model_dump(),
            "streamed": _streamed(by_openai),
            "awaited": asyncio.run(_awaited(by_openai)),
            "anthropic": litellm.completion(**by_anthropic).model_dump(),
            "anthropic_streamed": _streamed(by_anthropic),
            "used": _used(by_openai),
            "used_streamed": _used_streamed(by_openai),
            "anthropic_used": _used(by_anthropic),
            "formed": _text(by_openai | {"response_format": FORM, "max_tokens": 64}),
            "text": _text_completion(by_openai),
            "response": _response(by_openai),
            "embedding": _embedding(base_url, key),
            "thought": _thought(by_openai | {"model": "openai/outside", "max_tokens": 50}),
            "limited": [_refused(limited), _refused(limited)],
            "retried": _refused(limited | {"max_retries": 5}),
            "broke": _refused(broke),
            "unknown": _refused(by_openai | {"model": "openai/gpt-none"}),
            "wrong_key": _refused(by_openai | {"api_key": "sk-sluice-wrong"}),
            "bad": _refused(by_openai | {"temperature": 9}),
            "too_long": _refused(by_openai | {"messages": [MESSAGES[0] | {"content": "a " * 999}]}),
        },
        sys.stdout,
        default=str,
    )


def _streamed(wanted: Wanted) -> dict[str, Any]:
    """The text, and the usage that the stream told of at its end."""
    asked = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(litellm.completion(**wanted, **asked))
    return {"text": _said(chunks), "usage": _usage(chunks)}


async def _awaited(wanted: Wanted) -> str:
    stream = await litellm.acompletion(**wanted, stream=True)
    return _said([chunk async for chunk in stream])


def _said(chunks: list[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def _usage(chunks: list[Any]) -> list[int]:
    told = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)]
    return [told[-1].prompt_tokens, told[-1].completion_tokens, told[-1].total_tokens]


def _text(wanted: Wanted) -> str:
    return str(litellm.completion(**wanted).choices[0].message.content)


def _used(wanted: Wanted) -> dict[str, Any]:
    """A call of a tool, and what the model says once it is told the result."""
    message = litellm.completion(**wanted | USING).choices[0].message
    [call] = message.tool_calls
    told = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    again = wanted | {"messages": [*MESSAGES, message, told], "tools": [WEATHER]}
    said = litellm.completion(**again).choices[0].finish_reason
    return {"name": call.function.name, "arguments": call.function.arguments, "then": said}


def _used_streamed(wanted: Wanted) -> dict[str, Any]:
    chunks = list(litellm.completion(**wanted | USING, stream=True))
    built = litellm.stream_chunk_builder(chunks, messages=MESSAGES)
    [call] = built.choices[0].message.tool_calls
    return {
        "name": call.function.name,
        "arguments": call.function.arguments,
        "finish_reason": built.choices[0].finish_reason,
    }


def _text_completion(wanted: Wanted) -> str:
    asked = {name: value for name, value in wanted.items() if name != "messages"}
    asked["model"] = asked["model"].replace("openai/", "text-completion-openai/")
    return str(litellm.text_completion(prompt="Once upon a time", **asked).choices[0].text)


def _response(wanted: Wanted) -> dict[str, Any]:
    asked = {name: wanted[name] for name in ("model", "api_base", "api_key")}
    found = litellm.responses(input="Tell me a story.", max_output_tokens=8, **asked)
    return {"status": found.status, "output_tokens": found.usage.output_tokens}


def _thought(wanted: Wanted) -> list[dict[str, Any]]:
    """What an outside server thought and said, whole and streamed."""
    whole = litellm.completion(**wanted).choices[0].message
    chunks = list(litellm.completion(**wanted, stream=True))
    streamed = litellm.stream_chunk_builder(chunks, messages=MESSAGES).choices[0].message
    return [
        {"reasoning": message.reasoning_content, "text": message.content}
        for message in (whole, streamed)
    ]


def _embedding(base_url: str, key: str) -> list[int]:
    found = litellm.embedding(
        model="openai/minilm",
        input=["a fox", "a bear"],
        api_base=f"{base_url}/v1",
        api_key=key,
        encoding_format="float",
    )
    return [len(row["embedding"]) for row in found.data]


def _refused(wanted: Wanted) -> str:
    """The class of the error, or that there was none."""
    try:
        litellm.completion(**wanted)
    except Exception as refused:
        return type(refused).__name__
    return "nothing"


if __name__ == "__main__":
    main()
