"""`/v1/embeddings` on the wire: a body checked, vectors shaped as OpenAI's.

Base64 is passed on as it came. Nothing of a body is dropped silently.
"""

from binascii import a2b_base64
from collections.abc import Sequence
from dataclasses import dataclass
from struct import iter_unpack
from typing import Any, ClassVar

import msgspec

from billing.types import Usage
from gateway.errors import bad_request
from gateway.tokens import TokenCounter
from gateway.wire.answer import AnswerHead
from gateway.wire.checks import COMMON, Check, checked, integer, one_of
from gateway.wire.gathered import Gathered
from gateway.wire.prompts import (
    Prompt,
    longest_characters,
    prompt_list,
    prompt_tokens,
    prompts,
)
from gateway.wire.request import GeneratingRequest, service_tier
from routing.types import Task

INPUTS_MAX = 2048
DIMENSIONS_MAX = 2**20


@dataclass(frozen=True, slots=True)
class Inputs:
    """Texts to place in a vector space; without `dimensions` with as many as the model has."""

    task: ClassVar[Task] = Task.EMBED
    param: ClassVar[str] = "input"
    path: ClassVar[str] = "/embeddings"
    inputs: tuple[Prompt, ...]
    dimensions: int | None
    user: str | None = None

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

    def longest_characters(self) -> int:
        return longest_characters(self.inputs)

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        return {"input": self.inputs, "dimensions": self.dimensions}

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        said = {"dimensions": self.dimensions, "user": self.user}
        more = {name: value for name, value in said.items() if value is not None}
        return {"input": self.inputs, "encoding_format": "base64", **more}


def parse_embedding(body: bytes) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields = checked(body, CHECKS, "model", "input")
    return GeneratingRequest(
        model=fields["model"],
        wanted=Inputs(
            inputs=prompt_list("input", fields["input"], fields["model"]),
            dimensions=fields.get("dimensions"),
            user=fields.get("user"),
        ),
        form=EmbeddingForm(as_base64=fields.get("encoding_format") == "base64"),
        streaming=None,
        output_tokens_max=0,
        service_tier=service_tier(fields),
        end_user=fields.get("user"),
        end_user_param="user",
    )


@dataclass(frozen=True, slots=True)
class EmbeddingForm:
    as_base64: bool

    def whole(
        self, head: AnswerHead, choices: Sequence[Gathered], usage: Usage, cost: str
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

    def _embedding(self, choice: Gathered) -> msgspec.Raw:
        """Encoded one by one, so that a thread that does it lets others have their turn."""
        assert choice.embedding is not None, "a complete answer has every vector"
        vector = choice.embedding if self.as_base64 else _floats(choice.embedding)
        shape = {"object": "embedding", "index": choice.index, "embedding": vector}
        return msgspec.Raw(msgspec.json.encode(shape))


def _floats(vector: str) -> list[float]:
    return [number for (number,) in iter_unpack("<f", a2b_base64(vector))]


CHECKS: dict[str, Check] = COMMON | {
    "input": prompts(INPUTS_MAX),
    "encoding_format": one_of("float", "base64"),
    "dimensions": integer(1, DIMENSIONS_MAX),
}
