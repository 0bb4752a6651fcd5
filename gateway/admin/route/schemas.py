"""What would happen to a call now."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import AliasPath, Field

from gateway.admin.requests.schemas import CostedCandidate
from gateway.api.schemas import Answer, Body
from gateway.fields import EXACT_MAX, Label
from gateway.public.generations.schemas import Clause, RefusedCall
from routing.types import Tier


class ExplainBody(Body):
    """As for a quote, and whose call it is."""

    url: str = Field(examples=["/v1/chat/completions"])
    body: dict[str, Any] = Field(description="the body that the route would get")
    key: Label = Field(description="the id of an API key: whose limits and entitlements count")
    seed: int | None = Field(
        None,
        strict=True,
        ge=0,
        le=EXACT_MAX,
        description="by which ties between equal pools fall: that of another call; else the one"
        " that the next call of this gateway gets",
    )


class RouteExplanation(Answer):
    """The decision as it would fall now: the chosen candidate first; or the refusal."""

    object: Literal["route_explanation"] = "route_explanation"
    url: str
    model: str = Field(validation_alias=AliasPath("call", "model_requested"))
    service_tier: Tier = Field(validation_alias=AliasPath("call", "tier"))
    rule: str = Field(validation_alias=AliasPath("decision", "rule"))
    policy_revision: int = Field(validation_alias=AliasPath("decision", "policy_revision"))
    seed: int = Field(validation_alias=AliasPath("decision", "seed"))
    clauses: Sequence[Clause] = Field(validation_alias=AliasPath("decision", "clauses"))
    candidates: Sequence[CostedCandidate]
    refusal: RefusedCall | None = Field(validation_alias=AliasPath("decision", "refusal"))
