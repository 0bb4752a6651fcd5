"""`/v1/moderations` on the wire: what of a text or an image may harm, in OpenAI's shapes.

A verdict is passed on as its model gave it. Whoever names no model has the router choose one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import msgspec

from billing.types import Usage
from gateway.call.request import GeneratingRequest
from gateway.catalog.tokenizers import TokenCounter
from gateway.errors import bad_request
from gateway.scores.payload import ScoredPayload
from gateway.scores.request import whole_request
from gateway.wire.answer import AnswerHead
from gateway.wire.bodies.checks import Takes, empty_array, invalid_type, string, takes_no_more
from gateway.wire.bodies.provider import PROVIDER
from gateway.wire.bodies.rules import CallBody, Reader, in_words, object_of, own, text_of, union_of
from gateway.wire.bodies.rules import variant as kind
from gateway.wire.json_schema import STRING, array, either
from gateway.wire.whole_choice import WholeChoice
from routing.types import AUTO_MODEL, Task

INPUTS_MAX = 2048
URL_MAX = 32 * 1024 * 1024
PART = union_of(
    kind("text", {"text": text_of(URL_MAX)}, "text"),
    kind("image_url", {"image_url": object_of({"url": text_of(URL_MAX)}, "url")}, "image_url"),
)
KINDS = "a string, an array of strings or an array of parts"
Part = Mapping[str, Any]


def _inputs(name: str, value: object) -> None:
    if isinstance(value, str):
        return
    if not isinstance(value, list):
        raise invalid_type(name, KINDS, value)
    if not value:
        raise empty_array(name)
    if len(value) > INPUTS_MAX:
        raise bad_request(
            f"Invalid '{name}': array too long. Expected an array with maximum length "
            f"{INPUTS_MAX}, but got an array with length {len(value)} instead.",
            name,
            "array_above_max_length",
        )
    check = string if isinstance(value[0], str) else PART.check
    for index, each in enumerate(value):
        check(f"{name}[{index}]", each)


SCHEMA = either(
    STRING,
    array(STRING, minItems=1, maxItems=INPUTS_MAX),
    array(PART.schema, minItems=1, maxItems=INPUTS_MAX),
)


class ModerationBody(CallBody, frozen=True, kw_only=True):
    model: str | None = None  # type: ignore[assignment]
    input: Annotated[str | list[Any], own(_inputs, SCHEMA)]
    provider: Annotated[dict[str, Any] | None, in_words(PROVIDER)] = None


READER = Reader(ModerationBody)


@dataclass(frozen=True, slots=True)
class Suspects(ScoredPayload):
    """Texts, each of which gets a verdict of its own; or the parts of one thing."""

    task: ClassVar[Task] = Task.MODERATE
    param: ClassVar[str] = "input"
    path: ClassVar[str] = "/moderations"
    input: str | Sequence[str | Part]
    extra: Mapping[str, Any] | None = None

    @property
    def verdicts(self) -> int:
        """How many there are to be."""
        is_one = isinstance(self.input, str) or not isinstance(self.input[0], str)
        return 1 if is_one else len(self.input)

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        """Of each text, and of parts together. Raises ApiError 400 for an image where the model
        takes none."""
        if isinstance(self.input, str):
            return [tokens.count_text(self.input)]
        counts = [
            tokens.count_text(each) if isinstance(each, str) else _tokens(index, each, tokens)
            for index, each in enumerate(self.input)
        ]
        return [sum(counts)] if self.verdicts == 1 else counts

    def longest_characters(self) -> int:
        if isinstance(self.input, str):
            return len(self.input)
        texts = (each if isinstance(each, str) else each.get("text", "") for each in self.input)
        return max(map(len, texts))

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        return {"input": self.input, **(self.extra or {})}


def _tokens(index: int, part: Part, tokens: TokenCounter) -> int:
    if part["type"] == "text":
        return tokens.count_text(part["text"])
    if tokens.image_tokens is None:
        message = "Images are not supported with this model."
        raise bad_request(message, f"input[{index}]", "unsupported_parameter")
    return tokens.image_tokens


def parse_moderation(body: bytes, takes: Takes = takes_no_more) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields, extra = READER.read(body, takes)
    return whole_request(
        fields,
        Suspects(fields.input, extra),
        ModerationForm(),
        model=fields.model or AUTO_MODEL,
        provider=fields.provider,
        output_tokens_max=0,
    )


class ModerationForm:
    def whole(
        self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage, cost: str
    ) -> bytes:
        """OpenAI's shape has no usage: what it cost stands in a header."""
        verdicts = {"id": f"modr-{head.id}", "model": head.model, "results": choices[0].result}
        return msgspec.json.encode(verdicts)
