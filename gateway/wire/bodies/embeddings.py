"""`/v1/embeddings` on the wire: a body checked, vectors shaped as OpenAI's.

Base64 is passed on as it came. Nothing of a body is dropped silently.
"""

from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import iter_unpack
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from billing.types import Usage
from gateway.call.request import GeneratingRequest
from gateway.catalog.tokenizers import TokenCounter
from gateway.errors import bad_request
from gateway.wire.answer import AnswerHead
from gateway.wire.bodies.checks import Takes, takes_no_more
from gateway.wire.bodies.prompts import (
    Prompt,
    longest_characters,
    prompt_list,
    prompt_tokens,
    prompts,
    texts,
)
from gateway.wire.bodies.provider import PROVIDER, preferences_of, price_max_of
from gateway.wire.bodies.rules import CallBody, Reader, in_words, neutral, own
from gateway.wire.bodies.steering import STEERED
from gateway.wire.whole_choice import WholeChoice
from routing.types import Task

INPUTS_MAX = 2048
DIMENSIONS_MAX = 2**20


class EmbeddingBody(CallBody, frozen=True, kw_only=True):
    input: Annotated[str | list[Any], own(prompts(INPUTS_MAX), texts(INPUTS_MAX))]
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Annotated[int, Meta(ge=1, le=DIMENSIONS_MAX)] | None = None
    provider: Annotated[dict[str, Any] | None, in_words(PROVIDER)] = None
    truncate_prompt_tokens: Annotated[int | None, in_words(STEERED["truncate_prompt_tokens"])] = (
        None
    )
    add_special_tokens: Annotated[bool | None, neutral(True)] = None
    truncation_side: None = None
    priority: Annotated[int | float | None, neutral(0)] = None
    cache_salt: None = None


READER = Reader(EmbeddingBody)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Texts to place in a vector space; without `dimensions` with as many as the model has."""

    task: ClassVar[Task] = Task.EMBED
    param: ClassVar[str] = "input"
    path: ClassVar[str] = "/embeddings"
    inputs: tuple[Prompt, ...]
    dimensions: int | None
    user: str | None = None
    truncate_prompt_tokens: int | None = None
    extra: Mapping[str, Any] | None = None

    @property
    def choices(self) -> int:
        return len(self.inputs)

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        """Where a vector is to be longer than the model's, no worker is started to say so."""
        size = tokens.vector_size
        if self.dimensions is not None and size is not None and self.dimensions > size:
            message = f"Invalid 'dimensions': the model's vectors have {size}."
            raise bad_request(message, "dimensions", "unsupported_parameter")
        return prompt_tokens(self.inputs, tokens, self.param)

    def question(self) -> str:
        return ""

    def longest_characters(self) -> int:
        return longest_characters(self.inputs)

    def prefix(self) -> bytes:
        return b""

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        body = {"input": self.inputs, "dimensions": self.dimensions}
        if self.truncate_prompt_tokens is not None:
            body["truncate_prompt_tokens"] = self.truncate_prompt_tokens
        return body

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        options = {
            "dimensions": self.dimensions,
            "user": self.user,
            "truncate_prompt_tokens": self.truncate_prompt_tokens,
            **(self.extra or {}),
        }
        more = {name: value for name, value in options.items() if value is not None}
        return {"input": self.inputs, "encoding_format": "base64", **more}


def parse_embedding(body: bytes, takes: Takes = takes_no_more) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields, extra = READER.read(body, takes)
    return GeneratingRequest(
        model=fields.model,
        payload=Inputs(
            inputs=prompt_list("input", fields.input, fields.model),
            dimensions=fields.dimensions,
            user=fields.user or None,
            truncate_prompt_tokens=fields.truncate_prompt_tokens,
            extra=extra,
        ),
        form=EmbeddingForm(as_base64=fields.encoding_format == "base64"),
        streaming=None,
        output_tokens_max=0,
        service_tier=fields.service_tier or "auto",
        end_user=fields.user or None,
        end_user_param="user",
        preferences=preferences_of(fields.provider),
        price_max=price_max_of(fields.provider),
    )


@dataclass(frozen=True, slots=True)
class EmbeddingForm:
    as_base64: bool

    def whole(
        self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage, cost: str
    ) -> bytes:
        return msgspec.json.encode(
            {
                "object": "list",
                "data": [self._embedding(choice) for choice in choices],
                "model": head.model,
                "usage": {
                    "prompt_tokens": usage.prompt,
                    "total_tokens": usage.total,
                    "cost": cost,
                },
            }
        )

    def _embedding(self, choice: WholeChoice) -> msgspec.Raw:
        """Encoded one by one, so that a thread that does it lets others have their turn."""
        assert choice.embedding is not None, "a complete answer has every vector"
        vector = choice.embedding if self.as_base64 else _floats(choice.embedding)
        shape = {"object": "embedding", "index": choice.index, "embedding": vector}
        return msgspec.Raw(msgspec.json.encode(shape))


def _floats(vector: str) -> list[float]:
    return [number for (number,) in iter_unpack("<f", a2b_base64(vector))]
