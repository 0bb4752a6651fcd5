"""What an external server says that it serves: OpenAI's list of models, and the sizes that some
servers say with it. Pure."""

from typing import Annotated

import msgspec

from billing.types import UNREADABLE
from gateway.upstream.answer import Cut

MODELS_MAX = 10_000
Tokens = Annotated[int, msgspec.Meta(ge=1)]


class OutsideModel(msgspec.Struct, frozen=True):
    id: str
    context_tokens: int | None


class _Model(msgspec.Struct):
    id: str
    max_model_len: Tokens | None = None
    """vLLM's and SGLang's word."""
    context_length: Tokens | None = None
    """OpenRouter's, Together's and Fireworks'."""


class _Models(msgspec.Struct):
    data: Annotated[list[_Model], msgspec.Meta(max_length=MODELS_MAX)]


def read_models(body: bytes) -> list[OutsideModel]:
    """By name; raises Cut. Together answers with the bare list."""
    try:
        models = msgspec.json.decode(body, type=_Models | list[_Model])
    except UNREADABLE as malformed:
        raise Cut("its answer is no list of models") from malformed
    rows = models.data if isinstance(models, _Models) else models
    named = {row.id: OutsideModel(row.id, row.max_model_len or row.context_length) for row in rows}
    return [named[name] for name in sorted(named)]
