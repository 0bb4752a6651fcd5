"""What servers outside answer where images were asked for, as a frame.

Raises Cut for whatever is not of its shape: such an answer is none.
"""

import re

import msgspec

from billing.prices.tariff import image_of
from billing.types import Usage
from gateway.call.frame import Frame
from gateway.images.generations import SIZE, Drawing
from gateway.scores.documents import count, decoded, result_frame
from gateway.upstream.answer import Cut

BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
QUALITY = re.compile(r"[a-z0-9]{1,16}")


class _Image(msgspec.Struct, omit_defaults=True):
    """One of the two says it."""

    b64_json: str | None = None
    url: str | None = None
    revised_prompt: str | None = None

    @property
    def is_there(self) -> bool:
        if self.b64_json is not None:
            return BASE64.fullmatch(self.b64_json) is not None
        return bool(self.url)


class _Kinds(msgspec.Struct):
    image_tokens: float | None = None


class _ImageTokens(msgspec.Struct):
    input_tokens: float | None = None
    output_tokens: float | None = None
    input_tokens_details: _Kinds | None = None
    output_tokens_details: _Kinds | None = None


class _Said(msgspec.Struct, omit_defaults=True):
    """What goes on to the caller."""

    data: list[_Image]
    background: str | None = None
    output_format: str | None = None
    size: str | None = None
    quality: str | None = None


class _Images(_Said):
    usage: _ImageTokens | None = None


def read_images(body: bytes, *, drawing: Drawing, prompt_tokens: int) -> Frame:
    """The images that came, no more of them than were asked for."""
    answer = decoded(body, _Images)
    if not answer.data:
        raise Cut("an answer without images")
    if not all(image.is_there for image in answer.data):
        raise Cut("an image without bytes and without a URL")
    made = _Said(
        answer.data[: drawing.images],
        answer.background,
        answer.output_format,
        answer.size,
        answer.quality,
    )
    usage = _usage(answer.usage or _ImageTokens(), prompt_tokens)
    counted = msgspec.structs.replace(usage, units=len(answer.data), unit=_unit(answer, drawing))
    return result_frame(msgspec.json.encode(made), counted, drawing.choices)


def _usage(said: _ImageTokens, prompt_tokens: int) -> Usage:
    """A server that reports nothing has read the prompt, and made images that are no tokens."""
    read = count(said.input_tokens, prompt_tokens)
    seen = _of_images(said.input_tokens_details, read, 0)
    written = count(said.output_tokens, 0)
    shown = _of_images(said.output_tokens_details, written, written)
    return Usage(input=read - seen, image_input=seen, output=written - shown, image_output=shown)


def _of_images(kinds: _Kinds | None, tokens: int, otherwise: int) -> int:
    return min(count(kinds.image_tokens if kinds else None, otherwise), tokens)


def _unit(answer: _Images, drawing: Drawing) -> str:
    """As they were asked for, where the server says nothing else of them."""
    size, quality = answer.size or "", answer.quality or ""
    return image_of(
        size if SIZE.fullmatch(size) else drawing.size,
        quality if QUALITY.fullmatch(quality) else drawing.quality,
    )
