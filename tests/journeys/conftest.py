"""Every journey leaves the stack as it found it: nothing taken, nothing held, nobody waiting."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from tests.stack import Stack, Tenant


@pytest.fixture(autouse=True)
def nothing_is_left(stack: Stack) -> Iterator[None]:
    """Law 2, after each test: every permit, hold, lease and place in a queue is given back."""
    yield
    stack.wait_quiet()


@pytest.fixture
def tenant(stack: Stack) -> Tenant:
    """An organization of the test's own, without limits."""
    return stack.tenant()


@pytest.fixture
def client(stack: Stack, tenant: Tenant) -> Iterator[openai.OpenAI]:
    with stack.openai(tenant.secret) as opened:
        yield opened
