"""What the routes whose bodies are structs take, as JSON Schema, by path."""

from typing import Any

from gateway.audio.speech import READER as SPEECH
from gateway.audio.transcription import TRANSCRIPTION, TRANSLATION
from gateway.images.edits import READER as EDIT
from gateway.images.generations import READER as IMAGES
from gateway.scores.moderations import READER as MODERATION
from gateway.scores.rerank import READER as RERANK
from gateway.wire.anthropic.body import COUNT as MESSAGE_COUNT
from gateway.wire.anthropic.body import MESSAGE
from gateway.wire.bodies.chat_body import CHAT
from gateway.wire.bodies.completions import COMPLETION
from gateway.wire.bodies.embeddings import READER as EMBEDDING
from gateway.wire.bodies.rules import Reader
from gateway.wire.bodies.tokenize import DETOKENIZE, TOKENIZE
from gateway.wire.json_schema import ANYTHING, STRING, Schema, maybe, objects
from gateway.wire.responses.body import COUNT as INPUT_COUNT
from gateway.wire.responses.body import RESPONSE

QUOTE: dict[str, Schema] = {"url": STRING, "body": ANYTHING}


def body(properties: dict[str, Schema], *required: str) -> Schema:
    """Closed: what is not known is refused. What is not required may be null."""
    fields = {k: v if k in required else maybe(v) for k, v in properties.items()}
    return objects(fields, *(fields.keys() - set(required)), closed=True)


def of(reader: Reader[Any]) -> Schema:
    return body(reader.schema, *reader.required)


BODIES: dict[str, Schema] = {
    "/v1/chat/completions": of(CHAT),
    "/v1/completions": of(COMPLETION),
    "/v1/embeddings": of(EMBEDDING),
    "/v1/rerank": of(RERANK),
    "/v2/rerank": of(RERANK),
    "/v1/moderations": of(MODERATION),
    "/v1/audio/transcriptions": of(TRANSCRIPTION),
    "/v1/audio/translations": of(TRANSLATION),
    "/v1/audio/speech": of(SPEECH),
    "/v1/images/generations": of(IMAGES),
    "/v1/images/edits": of(EDIT),
    "/v1/responses": of(RESPONSE),
    "/v1/responses/input_tokens": of(INPUT_COUNT),
    "/v1/messages": of(MESSAGE),
    "/v1/messages/count_tokens": of(MESSAGE_COUNT),
    "/v1/quote": body(QUOTE, "url", "body"),
    "/v1/tokenize": of(TOKENIZE),
    "/v1/detokenize": of(DETOKENIZE),
}

FORMS = frozenset({"/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits"})
"""Bodies of `multipart/form-data`."""

_MESSAGES = [{"role": "user", "content": "Tell me a story about a fox."}]
_CHAT = {"model": "sluice-small", "messages": _MESSAGES, "max_tokens": 16}
_RANKING = {"model": "ranker", "query": "a fox", "documents": ["a red fox", "a bear"], "top_n": 1}
EXAMPLES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": _CHAT,
    "/v1/completions": {"model": "sluice-small", "prompt": "The fox", "max_tokens": 16},
    "/v1/embeddings": {"model": "minilm", "input": ["a fox", "a bear"]},
    "/v1/rerank": _RANKING,
    "/v2/rerank": _RANKING,
    "/v1/moderations": {"model": "omni-moderation", "input": "I will find you."},
    "/v1/audio/transcriptions": {"model": "whisper", "file": "talk.mp3", "language": "en"},
    "/v1/audio/translations": {"model": "whisper", "file": "talk.mp3"},
    "/v1/audio/speech": {"model": "tts", "input": "Hello there.", "voice": "alloy"},
    "/v1/images/generations": {"model": "painter", "prompt": "a red fox", "size": "1024x1024"},
    "/v1/images/edits": {"model": "painter", "image": "fox.png", "prompt": "in winter"},
    "/v1/responses": {"model": "sluice-small", "input": "Tell me a story about a fox."},
    "/v1/responses/input_tokens": {"model": "sluice-small", "input": "The fox"},
    "/v1/messages": _CHAT,
    "/v1/messages/count_tokens": {"model": "sluice-small", "messages": _MESSAGES},
    "/v1/quote": {"url": "/v1/chat/completions", "body": _CHAT},
    "/v1/tokenize": {"model": "sluice-small", "prompt": "The fox"},
    "/v1/detokenize": {"model": "sluice-small", "tokens": [1, 2, 3]},
}
"""One body of each that is answered, for whoever reads the description."""
