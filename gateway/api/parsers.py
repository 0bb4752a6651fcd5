"""Which route of a call reads its body how and speaks which dialect: one table, for the routes and
for quotes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.api import tokens
from gateway.api.generate import Parse
from gateway.catalog import CatalogKeeper
from gateway.wire.anthropic.body import parse_message
from gateway.wire.anthropic.dialect import ANTHROPIC
from gateway.wire.chat import parse_chat
from gateway.wire.completions import TextOf, parse_completion
from gateway.wire.dialect import OPENAI, Dialect
from gateway.wire.embeddings import parse_embedding
from gateway.wire.responses.body import parse_response
from gateway.wire.responses.dialect import RESPONSES


@dataclass(frozen=True, slots=True)
class Door:
    parse: Parse
    dialect: Dialect = OPENAI


def doors(keeper: CatalogKeeper) -> Mapping[str, Door]:
    return {
        "/v1/chat/completions": Door(parse_chat),
        "/v1/completions": Door(partial(parse_completion, text_of=_text_of(keeper))),
        "/v1/embeddings": Door(parse_embedding),
        "/v1/responses": Door(parse_response, RESPONSES),
        "/v1/messages": Door(parse_message, ANTHROPIC),
    }


def _text_of(keeper: CatalogKeeper) -> TextOf:
    """What token ids of a prompt spell, by the catalog as it is at the time."""

    def text_of(model: str, ids: Sequence[int]) -> str:
        return tokens.text_of(keeper.catalog.checkpoint(model), ids, "prompt")

    return text_of
