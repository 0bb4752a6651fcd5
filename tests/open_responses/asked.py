"""Requests like those of the Open Responses compliance suite, and what it wants for an answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
WEATHER: dict[str, Any] = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a town.",
    "parameters": {
        "type": "object",
        "properties": {"location": {"type": "string", "description": "A town and its country."}},
        "required": ["location"],
    },
}


def said(text: str, role: str = "user") -> dict[str, Any]:
    return {"type": "message", "role": role, "content": text}


@dataclass(frozen=True, slots=True)
class Asked:
    """`output` is the type of an item that has to be among the answer's."""

    input: list[dict[str, Any]]
    stream: bool = False
    tools: tuple[dict[str, Any], ...] = ()
    output: str = "message"
    sees: bool = False

    def body(self, model: str) -> dict[str, Any]:
        body = {"model": model, "input": self.input, "stream": self.stream}
        return body | ({"tools": list(self.tools)} if self.tools else {})


SEEN = {"type": "input_image", "image_url": PIXEL}
TOLD = {"type": "input_text", "text": "What do you see? Answer in one sentence."}
IN_ULM = said("What is the weather like in Ulm?")
REQUESTS = {
    "a text": Asked([said("Say hello in three words.")]),
    "a stream": Asked([said("Count from one to five.")], stream=True),
    "a system message": Asked([said("Talk as a sailor does.", "system"), said("Say hello.")]),
    "a tool": Asked([IN_ULM], tools=(WEATHER,), output="function_call"),
    "a tool in a stream": Asked([IN_ULM], True, (WEATHER,), "function_call"),
    "an image": Asked([said("") | {"content": [TOLD, SEEN]}], sees=True),
    "several turns": Asked(
        [
            said("My name is Alice."),
            said("Hello Alice! How can I help you?", "assistant"),
            said("What is my name?"),
        ]
    ),
}
