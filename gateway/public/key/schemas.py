"""What the calling key may do, its limits, and what is left of its money."""

from typing import Literal

from pydantic import AliasPath, Field

from gateway.admin.budgets.schemas import ScopeBudgetFields, WindowBudget
from gateway.api.schemas import Answer, At, Usd, read_from
from gateway.limits.limit import LimitFields
from gateway.tenants.entitlement import EntitlementFields


class OwnBudget(ScopeBudgetFields):
    remaining_usd: Usd | None = Field(validation_alias="remaining_nanousd")


class OwnScope(LimitFields, Answer):
    model_config = read_from("limits")
    scope: str
    budget: OwnBudget = Field(validation_alias="spending")


class NarrowScope(LimitFields, Answer):
    """One model, or every end user that has no limits of its own."""

    scope: str


class OwnKey(EntitlementFields, Answer):
    """Each scope binds on its own: the tightest of the three counts. A null is no limit."""

    model_config = read_from("may_use")
    object: Literal["key"] = "key"
    id: str = Field(validation_alias=AliasPath("caller", "key"))
    organization: str = Field(validation_alias=AliasPath("caller", "organization"))
    project: str = Field(validation_alias=AliasPath("caller", "project"))
    expires_at: At | None = Field(validation_alias="expires_us")
    scopes: list[OwnScope] = Field(validation_alias="scopes")
    narrow_limits: list[NarrowScope] = Field(validation_alias="narrow_limits")
    budgets: list[WindowBudget] = Field(validation_alias="budgets")
    end_user_required: bool = Field(validation_alias="end_user_required")
