"""`/v1/audio/transcriptions` and `/v1/audio/translations` on the wire: what is said in a file, as
it was said or in English, in OpenAI's shapes.

A call is sold by its seconds, by its tokens, or both. What is held covers the longest that the file
can be, whatever it says of itself.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from billing.prices.tariff import Component
from billing.types import Usage
from gateway.audio.length import SLOWEST, Audio, audio_like, audio_of
from gateway.call.request import GeneratingRequest
from gateway.catalog.tokenizers import TokenCounter
from gateway.errors import bad_request
from gateway.scores.payload import ScoredPayload
from gateway.scores.request import whole_request
from gateway.uploads.fields import fields_of
from gateway.uploads.form import FileRule, FormRules, UploadedForm
from gateway.uploads.sent_form import SentFile, SentForm, texts_of
from gateway.wire.answer import AnswerHead, TypedForm
from gateway.wire.bodies.checks import (
    Takes,
    integer,
    json_object,
    missing,
    number,
    takes_no_more,
)
from gateway.wire.bodies.rules import CallBody, Reader, described, neutral, own, word_of
from gateway.wire.json_schema import BINARY, array, one_of
from gateway.wire.whole_choice import WholeChoice
from routing.types import Task

FILE = "file"
BYTES_MAX = 25 << 20
"""Of one file: OpenAI's bound."""
PROMPT_MAX = 16_384
TEXTUAL = ("text", "srt", "vtt")
"""Formats of an answer that is no JSON, and so without a usage."""
TOKENS_A_SECOND = 50
"""The most that models make of a second: Whisper's encoder does."""
TOKENS_A_SECOND_LEAST = 10
"""What OpenAI's models make of one, wherever the file lies about its length."""
TEXT_TYPE = "text/plain; charset=utf-8"
GRANULARITIES = ("word", "segment")


def _granularities(name: str, value: list[str]) -> None:
    for index, each in enumerate(value):
        word_of(*GRANULARITIES).check(f"{name}[{index}]", each)


class TranslationBody(CallBody, frozen=True, kw_only=True):
    file: Annotated[str, described(BINARY)]
    prompt: Annotated[str, Meta(max_length=PROMPT_MAX)] | None = None
    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] | None = None
    temperature: Annotated[float, Meta(ge=0, le=1)] | None = None


class TranscriptionBody(TranslationBody, frozen=True, kw_only=True):
    language: Annotated[str, Meta(max_length=35)] | None = None
    timestamp_granularities: Annotated[
        list[Any] | None, own(_granularities, array(one_of(GRANULARITIES), maxItems=2))
    ] = None
    stream: Annotated[bool | None, neutral(False)] = None


TRANSCRIPTION: Reader[TranscriptionBody] = Reader(TranscriptionBody)
TRANSLATION: Reader[TranslationBody] = Reader(TranslationBody)
SENT = ("language", "prompt", "response_format", "temperature", "timestamp_granularities")
"""Fields that go on as they are."""


@dataclass(frozen=True, slots=True)
class Transcription(ScoredPayload):
    """A file of audio, and what is wanted of it."""

    task: ClassVar[Task] = Task.TRANSCRIBE
    param: ClassVar[str] = FILE
    unit: ClassVar[str] = Component.SECOND
    truncate_prompt_tokens: ClassVar[int | None] = 1
    """Servers read a long file in pieces: it takes nothing of a context."""
    path: str
    audio: Audio
    fields: Mapping[str, Any]
    extra: Mapping[str, Any] | None = None

    @property
    def response_format(self) -> str:
        return str(self.fields.get("response_format", "json"))

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        """The most that it may come to where a model is sold by its tokens."""
        longest = TOKENS_A_SECOND_LEAST * self.audio.seconds_max
        return [self._text_tokens(tokens) + max(longest, self._likely_tokens)]

    def _text_tokens(self, tokens: TokenCounter) -> int:
        return tokens.count_text(self.fields.get("prompt", ""))

    @property
    def _likely_tokens(self) -> int:
        return TOKENS_A_SECOND * self.audio.seconds

    def units(self, prompts: Sequence[int]) -> int:
        """The most seconds that a server may report."""
        return self.audio.seconds_max

    def unsaid_tokens(self, held: int, *, by_unit: bool) -> int:
        """A model that is sold by the second is charged for no token that its server does not
        name."""
        return 0 if by_unit else min(held, self._likely_tokens + len(self.fields.get("prompt", "")))

    @property
    def work_s(self) -> float:
        """A server may take as long as to listen to a quarter of it."""
        return self.audio.seconds / 4

    def longest_characters(self) -> int:
        return len(self.fields.get("prompt", ""))

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        return {**self.fields, **(self.extra or {})}

    def sent(self, body: Mapping[str, Any]) -> SentForm:
        """As a form with its file."""
        kind = self.audio.format
        name = f"audio.{kind.extension}"
        return SentForm(texts_of(body), [SentFile(FILE, name, kind.media_type, self.audio.content)])


TRANSCRIPTIONS, TRANSLATIONS = "/audio/transcriptions", "/audio/translations"
RULES = FormRules({FILE: FileRule(1, BYTES_MAX)})
LENGTHS = {"seconds": number(0, BYTES_MAX // SLOWEST), "bytes": integer(1, BYTES_MAX)}
"""Of a file that a quote has not."""
READERS: Mapping[str, Reader[Any]] = {TRANSCRIPTIONS: TRANSCRIPTION, TRANSLATIONS: TRANSLATION}


async def parse_audio(
    form: UploadedForm, path: str, takes: Takes = takes_no_more
) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields, extra = _read(fields_of(form, READERS[path]), path, takes)
    (upload,) = form.files[FILE]
    audio = await asyncio.to_thread(audio_of, upload)
    return _request(fields, extra, path, audio)


def parse_length(body: bytes, path: str, takes: Takes = takes_no_more) -> GeneratingRequest:
    """A call as a quote tells of it: with `seconds` or `bytes` of its file, or both, in the place
    of the file. Raises ApiError 400 naming the parameter."""
    said = json_object(body)
    if FILE in said:
        raise bad_request(f"Invalid '{FILE}': a quote takes its 'seconds' or 'bytes'.", FILE)
    lengths = {name: said.pop(name) for name in LENGTHS if said.get(name) is not None}
    for name, value in lengths.items():
        LENGTHS[name](name, value)
    if not lengths:
        raise missing("seconds")
    fields, extra = _read(said, path, takes)
    return _request(
        fields, extra, path, audio_like(lengths.get("seconds"), lengths.get("bytes", 0))
    )


def _read(said: Mapping[str, Any], path: str, takes: Takes) -> tuple[Any, Any]:
    fields, extra = READERS[path].read(msgspec.json.encode({FILE: "", **said}), takes)
    if not fields.model:
        raise missing("model")
    return fields, extra


def _request(
    fields: Any, extra: Mapping[str, Any] | None, path: str, audio: Audio
) -> GeneratingRequest:
    named = {n: v for n in SENT if (v := getattr(fields, n, None)) is not None}
    payload = Transcription(path=path, audio=audio, fields=named, extra=extra)
    return whole_request(
        fields,
        payload,
        TranscriptForm(payload.response_format),
        model=fields.model,
        sold_by=payload,
    )


@dataclass(frozen=True, slots=True)
class TranscriptForm(TypedForm):
    response_format: str

    @property
    def content_type(self) -> str | None:
        return TEXT_TYPE if self.response_format in TEXTUAL else None

    def whole(
        self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage, cost: str
    ) -> bytes:
        """What the server said, with what is charged as its usage. Text has none: what it cost
        stands in a header."""
        result = choices[0].result
        if self.response_format in TEXTUAL:
            return msgspec.json.decode(result, type=str).encode()
        fields = msgspec.json.decode(result, type=dict[str, msgspec.Raw])
        return msgspec.json.encode({**fields, "usage": _usage_shape(usage) | {"cost": cost}})


def _usage_shape(usage: Usage) -> dict[str, Any]:
    if usage.unit:
        return {"type": "duration", "seconds": usage.units}
    details = {"text_tokens": usage.prompt - usage.audio_input, "audio_tokens": usage.audio_input}
    return {
        "type": "tokens",
        "input_tokens": usage.prompt,
        "input_token_details": details,
        "output_tokens": usage.completion,
        "total_tokens": usage.total,
    }
