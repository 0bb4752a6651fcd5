"""Takes from OpenAI's OpenAPI document the schemas that our answers are held to.

    python -m tests.openai_api.extract path/to/openapi.yaml

The document is https://github.com/openai/openai-openapi, under the MIT licence. Descriptions and
examples are left out: what remains is what an answer may look like.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parent / "schemas.json"
ROOTS = (
    "CreateChatCompletionResponse",
    "CreateChatCompletionStreamResponse",
    "CreateCompletionResponse",
    "CreateEmbeddingResponse",
    "ListModelsResponse",
    "Model",
    "ErrorResponse",
    "Response",
    "ResponseStreamEvent",
    "UsageResponse",
    "CreateImageRequest",
    "CreateImageEditRequest",
    "ImagesResponse",
)
WORDS = ("description", "example", "examples", "title", "x-oaiMeta", "x-oaiExpandable")
LICENCE = (
    "MIT License. Copyright (c) OpenAI. Permission is hereby granted, free of charge, to any person"
    " obtaining a copy of this software and associated documentation files (the 'Software'), to"
    " deal in the Software without restriction, including without limitation the rights to use,"
    " copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and"
    " to permit persons to whom the Software is furnished to do so, subject to the following"
    " conditions: The above copyright notice and this permission notice shall be included in all"
    " copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED 'AS IS', WITHOUT"
    " WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF"
    " MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE"
    " AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN"
    " AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE"
    " SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."
)


def main(path: str) -> None:
    document = yaml.load(Path(path).read_text(), Loader=yaml.CSafeLoader)
    schemas = document["components"]["schemas"]
    found = {name: _bare(schemas[name]) for name in sorted(_reached(schemas))}
    told = {
        "source": "https://github.com/openai/openai-openapi",
        "version": document["info"]["version"],
        "licence": LICENCE,
        "components": {"schemas": found},
    }
    FILE.write_text(json.dumps(told, separators=(",", ":"), sort_keys=True) + "\n")


def _reached(schemas: dict[str, Any]) -> set[str]:
    found: set[str] = set()
    todo = list(ROOTS)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += _references(schemas[name])
    return found


def _references(told: Any) -> Iterator[str]:
    if isinstance(told, dict):
        if isinstance(told.get("$ref"), str):
            yield told["$ref"].rpartition("/")[2]
        told = list(told.values())
    if isinstance(told, list):
        for part in told:
            yield from _references(part)


def _bare(told: Any, is_schema: bool = True) -> Any:
    """Without words; a property may well be named as one of them."""
    if isinstance(told, list):
        return [_bare(part) for part in told]
    if not isinstance(told, dict):
        return told
    kept = {k: v for k, v in told.items() if not (is_schema and k in WORDS)}
    return {k: _bare(v, is_schema=not (is_schema and k == "properties")) for k, v in kept.items()}


if __name__ == "__main__":
    main(sys.argv[1])
