"""`/v1/images/edits` on the wire: images made of other images and of words, in OpenAI's shapes.

The images that are sent are tokens of the prompt: each is held at the most that its model counts.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from gateway.call.request import GeneratingRequest
from gateway.catalog.tokenizers import TokenCounter
from gateway.errors import bad_request
from gateway.images.generations import Drawing, DrawingBody, drawing_fields, drawing_request
from gateway.images.pictures import PNG, Picture, picture_of
from gateway.uploads.fields import fields_of
from gateway.uploads.form import OF_A_LIST, FileRule, FormRules, UploadedForm
from gateway.uploads.sent_form import SentFile, SentForm, texts_of
from gateway.wire.bodies.checks import Takes, takes_no_more
from gateway.wire.bodies.rules import Reader, described
from gateway.wire.json_schema import BINARY, array, either

IMAGE, MASK = "image", "mask"
EDITS = "/images/edits"
IMAGES_MAX = 16
RULES = FormRules({IMAGE: FileRule(IMAGES_MAX, 25 << 20), MASK: FileRule(1, 4 << 20)})


class EditBody(DrawingBody, frozen=True, kw_only=True):
    image: Annotated[str, described(either(BINARY, array(BINARY, maxItems=IMAGES_MAX)))]
    mask: Annotated[str | None, described(BINARY)] = None
    input_fidelity: Literal["high", "low"] | None = None


READER = Reader(EditBody)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit(Drawing):
    """Images, and what is to be made of them. The mask is for the first one."""

    path: ClassVar[str] = EDITS
    pictures: Sequence[Picture]
    mask: Picture | None

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        """Raises ApiError 400 where the model takes no images."""
        if tokens.image_tokens is None:
            message = "Images are not edited by this model: it makes them of words alone."
            raise bad_request(message, IMAGE, "unsupported_parameter")
        seen = len(self.pictures) + (self.mask is not None)
        return [tokens.count_text(self.prompt) + seen * tokens.image_tokens]

    def sent(self, body: Mapping[str, Any]) -> SentForm:
        """As a form with its files: one image by its name, several as a list."""
        field = IMAGE + OF_A_LIST if len(self.pictures) > 1 else IMAGE
        files = [
            _sent(field, f"{IMAGE}-{index}", each) for index, each in enumerate(self.pictures, 1)
        ]
        if self.mask is not None:
            files.append(_sent(MASK, MASK, self.mask))
        return SentForm(texts_of(body), files)


def _sent(field: str, name: str, picture: Picture) -> SentFile:
    kind = picture.format
    return SentFile(field, f"{name}.{kind.extension}", kind.media_type, picture.content)


async def parse_edit(form: UploadedForm, takes: Takes = takes_no_more) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields, extra = READER.read(msgspec.json.encode(fields_of(form, READER)), takes)
    pictures, mask = await asyncio.to_thread(_pictures_of, form)
    payload = Edit(
        **drawing_fields(fields, "input_fidelity"), extra=extra, pictures=pictures, mask=mask
    )
    return drawing_request(fields, payload)


def _pictures_of(form: UploadedForm) -> tuple[Sequence[Picture], Picture | None]:
    """Raises ApiError 400."""
    pictures = tuple(map(picture_of, form.files[IMAGE]))
    masks = [picture_of(each) for each in form.files.get(MASK, ())]
    for mask in masks:
        if mask.format is not PNG:
            raise bad_request(f"Invalid '{MASK}': expected a PNG.", MASK, "invalid_file_format")
        if mask.sides != pictures[0].sides:
            message = (
                f"Invalid '{MASK}': it is {mask.sides} pixels, and the first image is"
                f" {pictures[0].sides}. Both have to be of one size."
            )
            raise bad_request(message, MASK, "invalid_image_size")
    return pictures, masks[0] if masks else None
