"""What servers outside answer to a file of audio: text, or a document with the text in it."""

from typing import Any

import msgspec

from billing.types import UNREADABLE, Usage
from gateway.audio.transcription import TEXTUAL, Transcription
from gateway.call.frame import Frame
from gateway.scores.documents import count, result_frame
from gateway.upstream.answer import Cut

TOKEN_BYTES = 4
"""About as much text as a token stands for, where a server does not say how many there are."""


class _Details(msgspec.Struct):
    audio_tokens: float | None = None


class _Used(msgspec.Struct):
    """OpenAI's words: a duration, or tokens."""

    seconds: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    input_token_details: _Details | None = None


class _Transcript(msgspec.Struct):
    text: str
    usage: _Used | None = None


def read_transcript(body: bytes, *, transcription: Transcription, prompt_tokens: int) -> Frame:
    """`prompt_tokens` are counted where the server says nothing of tokens. Raises Cut for what is
    not of the format that was asked for."""
    seconds = transcription.audio.seconds
    try:
        if transcription.response_format in TEXTUAL:
            text, used, document = body.decode(), _Used(), msgspec.json.encode(body.decode())
        else:
            said = msgspec.json.decode(body, type=_Transcript)
            text, used = said.text, said.usage or _Used()
            fields: dict[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
            fields.pop("usage", None)
            document = msgspec.json.encode(fields)
    except UNREADABLE as malformed:
        raise Cut(f"a malformed document: {malformed}") from malformed
    return result_frame(document, _usage_of(used, text, seconds, prompt_tokens))


def _usage_of(used: _Used, text: str, seconds: int, prompt_tokens: int) -> Usage:
    """The server's word, or the length of the file."""
    unsaid = len(text.encode()) // TOKEN_BYTES if prompt_tokens else 0
    details = used.input_token_details or _Details()
    prompt, audio = count(used.input_tokens, prompt_tokens), count(details.audio_tokens, 0)
    return Usage(
        input=max(0, prompt - audio),
        audio_input=min(prompt, audio),
        output=count(used.output_tokens, unsaid if used.input_tokens is None else 0),
        units=max(1, count(used.seconds, seconds)),
    )
