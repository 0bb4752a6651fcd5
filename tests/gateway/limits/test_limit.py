"""Limits are declared for the wire and the rows here, and for the scripts of Redis in billing,
which knows nothing of a gateway: both mean the same ones."""

from dataclasses import fields

from billing.limits.types import CallLimits
from gateway.limits.limit import LimitFields


def test_limits_of_the_api_are_those_that_are_enforced() -> None:
    assert [*LimitFields.model_fields] == [field.name for field in fields(CallLimits)]
