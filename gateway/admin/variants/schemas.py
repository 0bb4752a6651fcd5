"""Variants of models, as an administrator reads and writes them."""

from typing import Literal

from pydantic import Field

from gateway.api.schemas import Answer, Body
from gateway.catalog.model import ModelName
from gateway.catalog.variant import VariantFields, VariantName


class VariantBody(VariantFields, Body):
    pass


class VariantAnswer(VariantFields, Answer):
    object: Literal["variant"] = "variant"
    model: ModelName
    name: VariantName
    origin: str | None = Field(description="what was declared, where that is not `path` itself")
    checksum: str | None
    enabled: bool
    source: str
