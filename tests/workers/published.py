"""Models and pools as a gateway publishes them: with every field, and its defaults."""

from __future__ import annotations

from typing import Any

import msgspec

from gateway.catalog.tables import ModelRow, PoolRow
from workers.catalog import Model, Pool

SIZE: dict[str, Any] = {
    "context_tokens": 2048,
    "max_output_tokens": 256,
    "size_rank": 1,
    "quality": 0.5,
}


def published_model(**fields: Any) -> dict[str, Any]:
    return ModelRow(**SIZE | fields).model_dump()


def published_pool(**fields: Any) -> dict[str, Any]:
    return PoolRow(**fields).model_dump()


def make_model(name: str, path: str | None = None) -> Model:
    return msgspec.convert(published_model(name=name, path=path), Model)


def make_pool(name: str, model: str, **fields: Any) -> Pool:
    return msgspec.convert(published_pool(name=name, model=model, **fields), Pool)
