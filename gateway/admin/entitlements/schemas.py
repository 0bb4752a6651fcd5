"""What a scope may use."""

from typing import Literal

from gateway.api.schemas import Answer, Body
from gateway.tenants.entitlement import EntitlementFields


class EntitlementBody(EntitlementFields, Body):
    """All that a scope may use; null is everything. PUT replaces it, so that what is left out is
    everything too; with PATCH it stays as it is."""


class EntitlementAnswer(EntitlementFields, Answer):
    object: Literal["entitlement"] = "entitlement"
    scope: str
