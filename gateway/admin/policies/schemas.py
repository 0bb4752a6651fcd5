"""Routing policies: versions, and what can be said of a document."""

from typing import Any, Literal

from pydantic import Field

from gateway.admin.versions.schemas import GatewayVersion, VersionAnswer, VersionBody
from gateway.api.schemas import Answer, Listing
from routing.policy.attributes import AttributeKind


class PolicyBody(VersionBody):
    document: str = Field(description="YAML, as docs/policies.md describes it")


class PolicyAnswer(VersionAnswer):
    object: Literal["policy"] = "policy"


class PolicyWithDocument(PolicyAnswer):
    document: str


class ActivePolicyAnswer(PolicyAnswer):
    """The version in force, and what runs where."""

    gateways: list[GatewayVersion] = Field(validation_alias="gateways")


class MistakeAnswer(Answer):
    """What is wrong, and where: line and column are counted from 1."""

    line: int = Field(ge=1)
    column: int = Field(ge=1)
    message: str


class ExampleAnswer(Answer):
    """A test of the document. `rule` is the one that its call falls under."""

    name: str
    expected: str
    rule: str
    passed: bool


class PolicyCheck(Answer):
    """A document, examined. Tests run where nothing else is wrong."""

    object: Literal["policy_check"] = "policy_check"
    version: int | None = Field(description="null where the document is not stored")
    valid: bool
    sha256: str
    rules: int | None = Field(ge=0, description="beside the default; null where there are none")
    errors: list[MistakeAnswer]
    warnings: list[MistakeAnswer] = Field(description="of what is right and has no effect")
    tests: list[ExampleAnswer]


class PolicyAttribute(Answer):
    """What a clause may read of a call."""

    name: str
    type: AttributeKind = Field(validation_alias="kind")
    meaning: str


class PolicySchema(Answer):
    """JSON Schema of a document, and the attributes of its clauses."""

    title: str
    description: str
    type: Literal["object"]
    properties: dict[str, Any]
    required: list[str]
    additionalProperties: bool
    defs: dict[str, Any] = Field(alias="$defs")
    attributes: Listing[PolicyAttribute]
