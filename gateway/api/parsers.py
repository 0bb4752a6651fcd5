"""Which route of a call reads its body how: one table, for the routes and for quotes."""

from collections.abc import Mapping, Sequence
from functools import partial

from gateway.api import tokens
from gateway.api.generate import Parse
from gateway.catalog import CatalogKeeper
from gateway.wire.chat import parse_chat
from gateway.wire.completions import TextOf, parse_completion
from gateway.wire.embeddings import parse_embedding


def parsers(keeper: CatalogKeeper) -> Mapping[str, Parse]:
    return {
        "/v1/chat/completions": parse_chat,
        "/v1/completions": partial(parse_completion, text_of=_text_of(keeper)),
        "/v1/embeddings": parse_embedding,
    }


def _text_of(keeper: CatalogKeeper) -> TextOf:
    """What token ids of a prompt spell, by the catalog as it is at the time."""

    def text_of(model: str, ids: Sequence[int]) -> str:
        return tokens.text_of(keeper.catalog.checkpoint(model), ids, "prompt")

    return text_of
