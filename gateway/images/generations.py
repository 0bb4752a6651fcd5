"""`/v1/images/generations` on the wire: images of what a text describes, in OpenAI's shapes.

Each image is sold by its size and quality. What a caller leaves open is held at the dearest.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from billing.prices.tariff import AUTO, image_of
from gateway.call.request import GeneratingRequest
from gateway.catalog.tokenizers import TokenCounter
from gateway.errors import bad_request
from gateway.images.form import ImagesForm
from gateway.scores.payload import ScoredPayload
from gateway.scores.request import whole_request
from gateway.wire.bodies.checks import Takes, string, takes_no_more, text_up_to, words
from gateway.wire.bodies.provider import PROVIDER
from gateway.wire.bodies.rules import CallBody, Reader, in_words, neutral, own
from gateway.wire.json_schema import text
from routing.types import AUTO_MODEL, Task

PROMPT_MAX = 32_000
IMAGES_MAX = 10
IMAGE_S = 60.0
"""How much longer a server may take for each."""
SIZE = re.compile(r"auto|[1-9][0-9]{1,4}x[1-9][0-9]{1,4}")
Quality = Literal["auto", "low", "medium", "high", "standard", "hd"]


def _prompt(name: str, value: object) -> None:
    words(name, value)
    text_up_to(PROMPT_MAX)(name, value)


def _size(name: str, value: object) -> None:
    string(name, value)
    if not SIZE.fullmatch(str(value)):
        message = f"Invalid value for '{name}'. Expected 'auto' or a size as '1024x1024'."
        raise bad_request(message, name, "invalid_value")


class DrawingBody(CallBody, frozen=True, kw_only=True):
    """What may be said of images, whatever they are made of."""

    model: str | None = None  # type: ignore[assignment]
    prompt: Annotated[str, own(_prompt, text(minLength=1, maxLength=PROMPT_MAX))]
    n: Annotated[int, Meta(ge=1, le=IMAGES_MAX)] | None = None
    size: Annotated[str | None, own(_size, text(pattern=f"^({SIZE.pattern})$"))] = None
    quality: Quality | None = None
    response_format: Literal["url", "b64_json"] | None = None
    output_format: Literal["png", "jpeg", "webp"] | None = None
    output_compression: Annotated[int, Meta(ge=0, le=100)] | None = None
    background: Literal["auto", "transparent", "opaque"] | None = None
    stream: Annotated[bool | None, neutral(False)] = None
    partial_images: Annotated[int | None, neutral(0)] = None


class ImagesBody(DrawingBody, frozen=True, kw_only=True):
    moderation: Literal["auto", "low"] | None = None
    style: Literal["vivid", "natural"] | None = None
    provider: Annotated[dict[str, Any] | None, in_words(PROVIDER)] = None


READER = Reader(ImagesBody)
PASSED_ON = (
    *("n", "size", "quality", "response_format", "output_format", "output_compression"),
    "background",
)
"""Where the caller says them: servers of one kind refuse what another kind needs."""


@dataclass(frozen=True, slots=True)
class Drawing(ScoredPayload):
    """A text, and how many images are to be made of it."""

    task: ClassVar[Task] = Task.IMAGE
    param: ClassVar[str] = "prompt"
    path: ClassVar[str] = "/images/generations"
    prompt: str
    images: int
    size: str
    quality: str
    passed_on: Mapping[str, Any]
    extra: Mapping[str, Any] | None = None

    @property
    def choices(self) -> int:
        """Each image may have as many tokens as its model makes at most."""
        return self.images

    @property
    def unit(self) -> str:
        return image_of(self.size, self.quality)

    def units(self, prompts: Sequence[int]) -> int:
        return self.images

    @property
    def work_s(self) -> float:
        return IMAGE_S * self.images

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        return [tokens.count_text(self.prompt)]

    def longest_characters(self) -> int:
        return len(self.prompt)

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        return {"prompt": self.prompt, **self.passed_on, **(self.extra or {})}


def parse_images(body: bytes, takes: Takes = takes_no_more) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields, extra = READER.read(body, takes)
    payload = Drawing(**drawing_fields(fields, "moderation", "style"), extra=extra)
    return drawing_request(fields, payload, fields.provider)


def drawing_fields(fields: DrawingBody, *passed_on: str) -> dict[str, Any]:
    """What a `Drawing` has of a body; `passed_on` are the fields that go on beside the common."""
    said = ((name, getattr(fields, name)) for name in (*PASSED_ON, *passed_on))
    return {
        "prompt": fields.prompt,
        "images": fields.n or 1,
        "size": fields.size or AUTO,
        "quality": fields.quality or AUTO,
        "passed_on": {name: value for name, value in said if value is not None},
    }


def drawing_request(
    fields: DrawingBody, payload: Drawing, provider: Mapping[str, Any] | None = None
) -> GeneratingRequest:
    return whole_request(
        fields,
        payload,
        ImagesForm(),
        model=fields.model or AUTO_MODEL,
        provider=provider,
        sold_by=payload,
    )
