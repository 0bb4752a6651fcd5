import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from workers.deployments.engine_app import DEPLOYMENT, EngineAppArgs, build
from workers.deployments.generating import CHOICES_MAX

ROOT = Path(__file__).parents[3]


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


def test_a_replica_that_fetches_nothing_imports_no_client_of_any_store() -> None:
    script = (
        "import sys, workers.deployments.engine_app as app; "
        "args = app.EngineAppArgs(pool='p', model_path='/m'); "
        "assert str(app.weights_of_replica(args).folder) == '/m'; "
        "print([m for m in sys.modules if m in ('redis', 'workers.weights.replica')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
