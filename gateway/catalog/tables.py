"""Rows of the catalogue: models, variants, pools, hardware, and the revision that gateways poll."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, CheckConstraint
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel
from sqlmodel._compat import SQLModelConfig

from gateway.catalog.hardware import HardwareFields
from gateway.catalog.model import ModelFields
from gateway.catalog.pool import PoolFields
from gateway.catalog.variant import VariantFields


class DeclaredRow(SQLModel):
    """Who declared a part of the catalogue, and whether it counts."""

    enabled: bool = True
    source: str = "admin"


class WeightsRow(DeclaredRow):
    """Where its weights are from."""

    origin: str | None = None
    """What was declared, where that is not the folder in `path` itself."""
    checksum: str | None = None
    """SHA-256 over the files of the folder, where it was taken into the cache of weights."""


class ModelRow(WeightsRow, ModelFields, table=True):
    """A model as SQL has it: what can be said of one, and who said it."""

    model_config = SQLModelConfig(frozen=False, extra="ignore")
    __tablename__ = "model"
    __table_args__ = (
        CheckConstraint(
            "task IN ('generate','embed','rerank','moderate','image','speak','transcribe')",
            name="task_known",
        ),
    )
    name: str = Field(primary_key=True)
    created_us: int = Field(default=0, sa_type=Big)


class VariantRow(WeightsRow, VariantFields, table=True):
    """A variant as SQL has it: `shape` and `quality` are JSON, as `VariantFields` writes them."""

    model_config = SQLModelConfig(frozen=False, extra="ignore")
    __tablename__ = "variant"
    __table_args__ = (
        CheckConstraint(
            "quantization IN ('bf16','fp16','fp8','int8','int4','fp32')",
            name="quantization_known",
        ),
    )
    model: str = Field(primary_key=True, foreign_key="model.name")
    name: str = Field(primary_key=True)
    shape: dict[str, Any] | None = Field(default=None, sa_type=JSON)  # type: ignore[assignment]
    quality: list[dict[str, Any]] = Field(default=[], sa_type=JSON)  # type: ignore[assignment]


class PoolRow(DeclaredRow, PoolFields, table=True):
    """A pool as SQL has it: what can be said of one, and who said it. `prices` are JSON."""

    model_config = SQLModelConfig(frozen=False, extra="ignore")
    __tablename__ = "pool"
    __table_args__ = (
        CheckConstraint(
            "capacity_class IN ('reserved','on_demand','spot','external')",
            name="capacity_class_known",
        ),
        CheckConstraint("offer IN ('serverless','dedicated','bare_metal')", name="offer_known"),
        CheckConstraint("continues IN ('prefix','anew','off')", name="continues_known"),
    )
    name: str = Field(primary_key=True)
    model: str = Field(foreign_key="model.name")
    prices: list[dict[str, Any]] = Field(default=[], sa_type=JSON)  # type: ignore[assignment]


class HardwareRow(DeclaredRow, HardwareFields, table=True):
    """A part of the operator's own. `tflops` and `prices` are JSON, as `HardwareFields` writes
    them."""

    model_config = SQLModelConfig(frozen=False, extra="ignore")
    __tablename__ = "hardware"
    __table_args__ = (
        CheckConstraint("kind IN ('gpu','tpu','accelerator','cpu')", name="hardware_kind_known"),
    )
    name: str = Field(primary_key=True)
    tflops: dict[str, float] = Field(default={}, sa_type=JSON)  # type: ignore[assignment]
    prices: list[dict[str, Any]] = Field(default=[], sa_type=JSON)  # type: ignore[assignment]


class CatalogRevision(SQLModel, table=True):
    """One row, id 1: counts every change of models, variants and pools."""

    __tablename__ = "catalog_revision"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)
    id: int = Field(default=1, primary_key=True, sa_column_kwargs={"autoincrement": False})
    revision: int = Field(default=0, sa_type=Big)
