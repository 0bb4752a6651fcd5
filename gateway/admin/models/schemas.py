"""Models, and what applying a declaration of them changes."""

from typing import Literal

from pydantic import AliasPath, Field

from gateway.api.schemas import Answer, Body
from gateway.catalog.model import ModelFields
from gateway.catalog.plan import Sign


class ModelBody(ModelFields, Body):
    pass


class ModelAnswer(ModelFields, Answer):
    object: Literal["model"] = "model"
    name: str
    created_us: int
    origin: str | None
    checksum: str | None
    enabled: bool
    source: str


class ModelChange(Answer):
    kind: str
    name: str
    change: Sign = Field(validation_alias="sign")
    details: list[str]


class ModelsApplication(Answer):
    object: Literal["models_application"] = "models_application"
    dry_run: bool = Field(validation_alias="is_dry_run")
    applied: bool = Field(validation_alias="is_applied")
    weights_written: list[str] = Field(validation_alias="fetched")
    notes: list[str]
    changes: list[ModelChange] = Field(validation_alias=AliasPath("plan", "changes"))
