"""Every journey leaves the stack as it found it: nothing taken, nothing held, nobody waiting."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.journeys.outside import Outside, Script
from tests.stack import Stack, Tenant
from tests.stack_process import OUTSIDE_KEY_VARIABLE

OUTSIDE_MODEL = {
    "path": None,
    "context_tokens": 4096,
    "max_output_tokens": 512,
    "size_rank": 9,
    "quality": 0.0,
}
OUTSIDE_POOL = {
    "model": "outside",
    "capacity_class": "external",
    "upstream_model": "their-model",
    "api_key_env": OUTSIDE_KEY_VARIABLE,
    # So dear that `auto` never ends here, whatever a test asks for.
    "cost_input_usd_per_mtok": "10000",
    "cost_output_usd_per_mtok": "10000",
}
OUTSIDE_PRICES = {"input": "1", "cached_input": "0.5", "output": "2"}


@pytest.fixture(autouse=True)
def nothing_is_left(stack: Stack) -> Iterator[None]:
    """Law 2, after each test: every permit, hold, lease and place in a queue is given back."""
    yield
    stack.wait_quiet()


@pytest.fixture(autouse=True, scope="package")
def ledger_is_whole_in_the_end(stack: Stack) -> Iterator[None]:
    """Every law of money, after all journeys."""
    yield
    status, report = stack.ledger_verify()
    assert status == 0, [check for check in report["checks"] if check["outcome"] != "holds"]


@pytest.fixture
def tenant(stack: Stack) -> Tenant:
    """An organization of the test's own, without limits."""
    return stack.tenant()


@pytest.fixture
def client(stack: Stack, tenant: Tenant) -> Iterator[openai.OpenAI]:
    with stack.openai(tenant.secret) as opened:
        yield opened


@pytest.fixture(scope="session")
def outside_server(stack: Stack) -> Iterator[Outside]:
    """An external pool of the model `outside`, over a real server that tests control."""
    with Outside() as server:
        stack.admin("PUT", "/models/outside", OUTSIDE_MODEL)
        stack.admin("PUT", "/pools/outside", OUTSIDE_POOL | {"base_url": server.base_url})
        stack.add_prices("outside", OUTSIDE_PRICES)
        yield server


@pytest.fixture
def outside(outside_server: Outside) -> Iterator[Outside]:
    outside_server.begin(Script())
    yield outside_server
    outside_server.release.set()
