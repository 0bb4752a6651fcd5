"""What `/v1/models` says of a model is what its routes take."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.catalog.tokenizers import ByteBound, CheckpointTokens, TokenCounter
from gateway.errors import ApiError
from gateway.wire.bodies.chat_body import CHAT
from gateway.wire.bodies.conversation import CACHING, HINTS, LABELS
from gateway.wire.bodies.embeddings import READER as EMBEDDING
from gateway.wire.bodies.ollama import RUNS
from gateway.wire.bodies.supported import capabilities, supported_parameters
from routing.types import Model, Task

SMALL = CheckpointTokens(Path(__file__).parents[3] / "models" / "sluice-small")
GENERATES = Model("m", None, 100, 10, 1, 0.5)
EMBEDS = Model("e", None, 100, 0, 1, 0.5, Task.EMBED)
NO_ANSWERS_SHAPE = {"model", "messages", "service_tier", *LABELS, *CACHING, *RUNS}
NO_ANSWERS_SHAPE |= {"chat_id", "session_id", "provider", "disable_fallbacks"}


def _taken(name: str) -> bool:
    """A parameter that is refused at any value but its neutral one takes no odd value either way,
    and says that it is not supported."""
    try:
        CHAT.checks[name](name, {"x": 0.5})
    except ApiError as refused:
        return refused.code != "unsupported_parameter"
    return True


def test_every_parameter_that_shapes_an_answer_is_listed_and_no_other() -> None:
    taken = {name for name in CHAT.checks if _taken(name)} - NO_ANSWERS_SHAPE
    assert set(supported_parameters(GENERATES, ByteBound())) == taken
    assert set(supported_parameters(GENERATES, SMALL)) == taken - {*HINTS}
    assert set(supported_parameters(EMBEDS, SMALL)) <= EMBEDDING.checks.keys()


@pytest.mark.parametrize("tokens", [SMALL, ByteBound()])
def test_capabilities_follow_the_task_and_the_template(tokens: TokenCounter) -> None:
    assert capabilities(GENERATES, tokens)["tools"]
    assert not capabilities(EMBEDS, tokens)["chat"]
    assert not capabilities(GENERATES, tokens)["vision"]
    assert capabilities(GENERATES, ByteBound(85))["vision"]
