"""Models as Anthropic's clients list them, page by page."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from gateway.errors import bad_request
from routing.types import Model

PAGE_DEFAULT, PAGE_MAX = 20, 1000


def page(
    models: Sequence[Model],
    limit: int,
    *,
    after_id: str | None = None,
    before_id: str | None = None,
) -> dict[str, Any]:
    """At most `limit` of them: the first, those right after one, or those right before one.

    Raises ApiError 400 for an id that is not among them, and for two.
    """
    if after_id is not None and before_id is not None:
        message = "'after_id' and 'before_id' may not be given at once."
        raise bad_request(message, "before_id", "invalid_value")
    if before_id is not None:
        rest = models[: _place(models, "before_id", before_id)]
        rows = rest[-limit:]
    else:
        rest = models if after_id is None else models[_place(models, "after_id", after_id) + 1 :]
        rows = rest[:limit]
    return {
        "data": [model_info(model) for model in rows],
        "first_id": rows[0].name if rows else None,
        "last_id": rows[-1].name if rows else None,
        "has_more": len(rest) > len(rows),
    }


def _place(models: Sequence[Model], name: str, model_id: str) -> int:
    for place, model in enumerate(models):
        if model.name == model_id:
            return place
    raise bad_request(f"'{name}' names no model of yours: '{model_id}'.", name, "invalid_value")


def model_info(model: Model) -> dict[str, Any]:
    created = datetime.fromtimestamp(model.created_s, UTC)
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": model.context_tokens,
        "max_tokens": model.max_output_tokens,
    }
