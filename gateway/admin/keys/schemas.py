"""Keys of projects. The secret of a key is answered once, at its making."""

from typing import Literal

from pydantic import Field

from gateway.api.schemas import Answer, At, Body
from gateway.fields import YEAR_S, Label


class NewKey(Body):
    project: Label = Field(examples=["proj_default"])
    name: Label = Field(examples=["laptop"])
    expires_at: At | None = Field(None, description="null is never")


class Rotation(Body):
    overlap_s: float = Field(
        0.0, strict=True, ge=0, le=YEAR_S, description="the old secret works this long"
    )


class ApiKeyAnswer(Answer):
    object: Literal["api_key"] = "api_key"
    id: str
    project: str = Field(validation_alias="project_id")
    organization: str = Field(validation_alias="org_id")
    name: str
    redacted: str = Field(validation_alias="prefix")
    created_at: At = Field(validation_alias="created_us")
    expires_at: At | None = Field(validation_alias="expires_us")
    revoked_at: At | None = Field(validation_alias="revoked_us")


class ApiKeyWithSecret(ApiKeyAnswer):
    secret: str
