"""Models as Anthropic's clients list them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from routing.types import Model


def model_list(models: Sequence[Model]) -> dict[str, Any]:
    """All of them on one page."""
    return {
        "data": [model_info(model) for model in models],
        "first_id": models[0].name if models else None,
        "last_id": models[-1].name if models else None,
        "has_more": False,
    }


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
