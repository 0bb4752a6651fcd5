import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import AsyncMock

import pytest
from pydantic import ValidationError

from workers.deployments.engine_app import (
    DEPLOYMENT,
    SECRET_ENV,
    EngineAppArgs,
    build,
    worker_app,
)
from workers.deployments.generating import CHOICES_MAX
from workers.deployments.parts import Parts
from workers.engines.fake import ScriptedEngine
from workers.ray.worker_start import START
from workers.weights.wanted import WeightsHere

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


@pytest.mark.parametrize(("broken", "is_over"), [(None, True), ("no model", False)])
async def test_replica_ends_its_start_once_its_engine_runs(
    broken: str | None, is_over: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then no spare is made in its place."""
    start, says = os.pipe()
    monkeypatch.setenv(START, str(says))
    monkeypatch.setenv(SECRET_ENV, "a secret")
    app = worker_app(Parts(ScriptedEngine([], broken=broken), {}), WeightsHere(Path("/m")))
    inbox = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])

    async def receive() -> dict[str, str]:
        return next(inbox)

    await app({"type": "lifespan"}, receive, AsyncMock())
    os.set_blocking(start, False)
    if is_over:
        assert os.read(start, 1) == b""
    else:
        with pytest.raises(BlockingIOError):
            os.read(start, 1)
        os.close(says)
    os.close(start)
