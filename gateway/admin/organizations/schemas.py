"""Organizations and their projects."""

from typing import Any, Literal

from pydantic import BaseModel, Field, field_validator

from gateway.api.schemas import Answer, At, Body, Usd
from gateway.fields import Label
from gateway.tenants.tables import OrganizationFields

Status = Literal["active", "frozen"]
"""The keys of what is frozen are told 403, until it is active again."""


class SettlementFields(BaseModel):
    """How an organization pays."""

    settlement_mode: Literal["postpaid", "prepaid"] = Field(
        "postpaid", description="prepaid: it spends what its credits cover, and its credit limit"
    )
    credit_limit_usd: Usd | None = Field(
        None,
        description="decimal USD: the most it may owe beyond its credits; null is no limit where it"
        " pays afterwards, and zero where before",
        examples=["100.00"],
    )
    insufficient_quota_status: Literal[429, 402] = Field(
        429, description="of a call that credits, a credit limit or a budget do not cover"
    )


class OrganizationBody(OrganizationFields, SettlementFields, Body):
    @field_validator("credit_limit_usd")
    @classmethod
    def is_no_debt(cls, limit: int | None) -> int | None:
        if limit is not None and limit < 0:
            raise ValueError("a credit limit is not negative")
        return limit

    def columns(self) -> dict[str, Any]:
        """The fields that were sent, by the names of their columns."""
        columns = self.model_dump(exclude={"credit_limit_usd"}, exclude_unset=True)
        if "credit_limit_usd" in self.model_fields_set:
            columns["credit_limit_nanousd"] = self.credit_limit_usd
        return columns


class NewOrganization(OrganizationBody):
    name: Label = Field(examples=["Reed"])
    slug: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$", examples=["reed"])


class OrganizationChange(OrganizationBody):
    """What is left out stays as it is; a tier or credit limit of null takes it away."""

    status: Status = "active"


class OrganizationAnswer(OrganizationFields, SettlementFields, Answer):
    object: Literal["organization"] = "organization"
    id: str
    name: str
    slug: str
    status: Status | Literal["suspended"] = Field(
        description="suspended: frozen until an invoice that is overdue is paid"
    )
    credit_limit_usd: Usd | None = Field(validation_alias="credit_limit_nanousd")
    created_at: At = Field(validation_alias="created_us")


class NewProject(Body):
    organization: Label = Field(examples=["org_default"])
    name: Label = Field(examples=["search"])


class ProjectChange(Body):
    """What is left out stays as it is."""

    status: Status = "active"


class ProjectAnswer(Answer):
    object: Literal["project"] = "project"
    id: str
    organization: str = Field(validation_alias="org_id")
    name: str
    status: Status
    created_at: At = Field(validation_alias="created_us")
