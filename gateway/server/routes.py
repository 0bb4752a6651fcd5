"""Which route of a call reads its body how and speaks which dialect: one table, for the routes and
for quotes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.audio.speech import parse_speech
from gateway.audio.transcription import READERS, RULES, parse_audio, parse_length
from gateway.catalog.catalog import CatalogKeeper
from gateway.images import edits
from gateway.images.edits import parse_edit
from gateway.images.generations import parse_images
from gateway.public import tokenize
from gateway.scores.moderations import parse_moderation
from gateway.scores.rerank import parse_rerank
from gateway.server.endpoint import Parse, ParseForm
from gateway.uploads.form import FormRules
from gateway.wire.anthropic.body import parse_message
from gateway.wire.anthropic.dialect import ANTHROPIC
from gateway.wire.bodies.chat import parse_chat
from gateway.wire.bodies.checks import Takes
from gateway.wire.bodies.completions import TextOf, parse_completion
from gateway.wire.bodies.embeddings import parse_embedding
from gateway.wire.dialect import OPENAI, Dialect
from gateway.wire.responses.body import parse_response
from gateway.wire.responses.dialect import RESPONSES


@dataclass(frozen=True, slots=True)
class CallRoute:
    parse: Parse
    dialect: Dialect = OPENAI


@dataclass(frozen=True, slots=True)
class FormRoute:
    rules: FormRules
    parse: ParseForm


def call_routes(keeper: CatalogKeeper) -> Mapping[str, CallRoute]:

    takes = _takes(keeper)
    return {
        "/v1/chat/completions": CallRoute(partial(parse_chat, takes=takes)),
        "/v1/completions": CallRoute(
            partial(parse_completion, text_of=_text_of(keeper), takes=takes)
        ),
        "/v1/embeddings": CallRoute(partial(parse_embedding, takes=takes)),
        "/v1/rerank": CallRoute(partial(parse_rerank, takes=takes)),
        "/v2/rerank": CallRoute(partial(parse_rerank, takes=takes, returns_documents=False)),
        "/v1/moderations": CallRoute(partial(parse_moderation, takes=takes)),
        "/v1/audio/speech": CallRoute(partial(parse_speech, takes=takes)),
        "/v1/images/generations": CallRoute(partial(parse_images, takes=takes)),
        "/v1/responses": CallRoute(parse_response, RESPONSES),
        "/v1/messages": CallRoute(parse_message, ANTHROPIC),
    }


def form_routes(keeper: CatalogKeeper) -> Mapping[str, FormRoute]:
    """Those that are sent files."""
    takes = _takes(keeper)
    audio = {
        f"/v1{path}": FormRoute(RULES, partial(parse_audio, path=path, takes=takes))
        for path in READERS
    }
    return audio | {f"/v1{edits.EDITS}": FormRoute(edits.RULES, partial(parse_edit, takes=takes))}


def quoted_routes(keeper: CatalogKeeper) -> Mapping[str, Parse]:
    """What a quote can be asked of. A body has the length of a file in its place."""
    takes = _takes(keeper)
    return {
        **{path: route.parse for path, route in call_routes(keeper).items()},
        **{f"/v1{path}": partial(parse_length, path=path, takes=takes) for path in READERS},
    }


def _takes(keeper: CatalogKeeper) -> Takes:
    def takes(model: str) -> Collection[str]:
        return keeper.catalog.extra_fields.get(model, ())

    return takes


def _text_of(keeper: CatalogKeeper) -> TextOf:
    """What token ids of a prompt spell, by the catalog as it is at the time."""

    def text_of(model: str, ids: Sequence[int]) -> str:
        return tokenize.text_of(keeper.catalog.checkpoint(model), ids, "prompt")

    return text_of
