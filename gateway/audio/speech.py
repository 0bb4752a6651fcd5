"""`/v1/audio/speech` on the wire: a text as sound, in OpenAI's shape, passed on as it comes.

The sound of an answer says nothing of what it cost, so a call is sold by the characters of its
text, all of them from the first sound on.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta

from billing.prices.tariff import Component
from billing.types import Usage
from gateway.call.request import GeneratingRequest
from gateway.catalog.tokenizers import TokenCounter
from gateway.errors import bad_request
from gateway.scores.payload import ScoredPayload
from gateway.scores.request import whole_request
from gateway.wire.answer import SoundForm
from gateway.wire.bodies.checks import (
    Takes,
    invalid_type,
    missing,
    string,
    string_too_long,
    takes_no_more,
    text_up_to,
)
from gateway.wire.bodies.provider import PROVIDER
from gateway.wire.bodies.rules import CallBody, Reader, in_words, neutral, own
from gateway.wire.json_schema import either, part, text
from routing.types import Task

CHARACTERS_MAX = 4096
VOICE_MAX = 256
MEDIA_TYPES = {
    "mp3": "audio/mpeg",
    "opus": "audio/ogg",
    "aac": "audio/aac",
    "flac": "audio/flac",
    "wav": "audio/wav",
    "pcm": "audio/pcm",
}


def _input(name: str, value: object) -> None:
    string(name, value)
    assert isinstance(value, str)
    if not value:
        message = f"Invalid '{name}': empty string. Expected a string with minimum length 1."
        raise bad_request(message, name, "empty_string")
    if len(value) > CHARACTERS_MAX:
        raise string_too_long(name, CHARACTERS_MAX, len(value))


def _voice(name: str, value: object) -> None:
    """A name, or a voice of the caller's own by its id."""
    if isinstance(value, dict):
        for key in value:
            if key != "id":
                where = f"{name}.{key}"
                raise bad_request(f"Unknown parameter: '{where}'.", where, "unknown_parameter")
        name, value = f"{name}.id", value.get("id")
        if value is None:
            raise missing(name)
    if not isinstance(value, str):
        raise invalid_type(name, "a string or an object with an 'id'", value)
    text_up_to(VOICE_MAX)(name, value)


WORDS = text(minLength=1, maxLength=CHARACTERS_MAX)
VOICE = text(maxLength=VOICE_MAX)


class SpeechBody(CallBody, frozen=True, kw_only=True):
    input: Annotated[str, own(_input, WORDS)]
    voice: Annotated[str | dict[str, Any], own(_voice, either(VOICE, part({"id": VOICE})))]
    instructions: Annotated[str, Meta(max_length=CHARACTERS_MAX)] | None = None
    response_format: Literal["mp3", "opus", "aac", "flac", "wav", "pcm"] | None = None
    speed: Annotated[float, Meta(ge=0.25, le=4)] | None = None
    stream_format: Annotated[str | None, neutral("audio")] = None
    provider: Annotated[dict[str, Any] | None, in_words(PROVIDER)] = None


READER = Reader(SpeechBody)
SENT = ("input", "voice", "instructions", "response_format", "speed")


@dataclass(frozen=True, slots=True)
class Speech(ScoredPayload):
    """A text to be spoken."""

    task: ClassVar[Task] = Task.SPEAK
    param: ClassVar[str] = "input"
    path: ClassVar[str] = "/audio/speech"
    unit: ClassVar[str] = Component.CHARACTER
    fields: Mapping[str, Any]
    extra: Mapping[str, Any] | None = None

    @property
    def characters(self) -> int:
        return len(self.fields["input"])

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        texts = self.fields["input"], self.fields.get("instructions", "")
        return [sum(tokens.count_text(each) for each in texts if each)]

    def units(self, prompts: Sequence[int]) -> int:
        return self.characters

    def usage(self, prompt_tokens: int) -> Usage:
        """Of its sound, which does not say it."""
        return Usage(input=prompt_tokens, units=self.characters)

    def longest_characters(self) -> int:
        return self.characters + len(self.fields.get("instructions", ""))

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        return {**self.fields, **(self.extra or {})}


def parse_speech(body: bytes, takes: Takes = takes_no_more) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields, extra = READER.read(body, takes)
    named = {name: v for name in SENT if (v := getattr(fields, name)) is not None}
    payload = Speech(named, extra)
    return whole_request(
        fields,
        payload,
        SoundForm(MEDIA_TYPES[fields.response_format or "mp3"]),
        model=fields.model,
        provider=fields.provider,
        sold_by=payload,
    )
