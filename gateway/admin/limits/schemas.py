"""Limits of scopes, and what becomes of an organization's calls while the limiter is away."""

from typing import Annotated, Literal, Self

from fastapi import Path
from pydantic import BaseModel, Field, field_validator, model_validator
from sqlmodel._compat import SQLModelConfig

from gateway.api.schemas import Answer, Body, Usd
from gateway.limits.limit import LimitFields
from gateway.tenants.auth import OutageMode

LimitScope = Annotated[
    str,
    Path(
        pattern=r"^(org|project|key):[^/]+(/(model|user):[^\x00-\x1f\x7f]{1,512})?$",
        description="`org:ID`, `project:ID` or `key:ID`; one model of it, as in"
        " `org:ID/model:NAME`; one end user, as in `key:ID/user:NAME`, or every one without limits"
        " of its own: `key:ID/user:*`",
    ),
]


class LimitsBody(LimitFields, Body):
    """All limits of a scope: null is none. PUT replaces them, so that one left out is none either;
    with PATCH it stays as it is."""

    model_config = SQLModelConfig(strict=True)


class LimitsAnswer(LimitFields, Answer):
    object: Literal["limits"] = "limits"
    scope: str


class OutageFields(BaseModel):
    mode: OutageMode | None
    spend_cap_usd: Usd | None = Field(
        None, description="decimal USD, to be said for `local`", examples=["5.00"]
    )


class OutageBody(OutageFields, Body):
    """`local`: limits of each gateway's own, owing at most `spend_cap_usd` to each; `deny`: 503;
    null: local for calls that no budget binds, deny for others."""

    @field_validator("spend_cap_usd")
    @classmethod
    def is_no_debt(cls, cap: int | None) -> int | None:
        if cap is not None and cap < 0:
            raise ValueError("a cap is not negative")
        return cap

    @model_validator(mode="after")
    def is_whole(self) -> Self:
        if (self.mode == "local") != (self.spend_cap_usd is not None):
            raise ValueError("a cap belongs to 'local', and 'local' needs one")
        return self


class OutageAnswer(OutageFields, Answer):
    object: Literal["outage"] = "outage"
    organization: str = Field(validation_alias="org_id")
    spend_cap_usd: Usd | None = Field(validation_alias="cap_nanousd")
