from pathlib import Path

import pytest
from pydantic import ValidationError

from workers.deployments.engine_app import DEPLOYMENT, EngineAppArgs, build
from workers.deployments.generating import CHOICES_MAX


def test_arguments_are_the_engines_bounds() -> None:
    args = EngineAppArgs.model_validate(
        {"pool": "small", "model_path": "/models/small", "slots": 3, "context_tokens": 512}
    )
    settings = args.engine_settings()
    assert settings.model_path == Path("/models/small")
    assert (settings.slots, settings.context_tokens) == (3, 512)


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(ValidationError):
        EngineAppArgs.model_validate({"pool": "small", "model_path": "/m", "slotz": 3})


def test_the_largest_call_leaves_room_for_others() -> None:
    args = EngineAppArgs.model_validate({"pool": "small", "model_path": "/m", "slots": 1})
    assert args.slots + args.queue_max >= 2 * CHOICES_MAX


def test_serve_admits_what_the_engine_can_hold_and_the_controllers_calls() -> None:
    app = build({"pool": "small", "model_path": "/m", "slots": 3, "queue_max": 5})
    deployment = app._bound_deployment
    assert deployment.name == DEPLOYMENT
    assert deployment.max_ongoing_requests == 3 + 5 + 16
