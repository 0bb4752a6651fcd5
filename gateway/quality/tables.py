"""Rows of what was learned of models' quality."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Index
from sqlmodel import Field

from gateway.versions.tables import Activation, Kind, Version
from routing.quality.document import QualityDocument, written
from routing.quality.model import QualityModel


class QualityVersion(Version, table=True):
    __tablename__ = "quality_version"


class QualityActivation(Activation, table=True):
    __tablename__ = "quality_activation"
    __table_args__ = (Index("quality_activation_version", "version", "number"),)
    version: int = Field(foreign_key="quality_version.version")


QUALITIES: Final = Kind(
    "quality",
    QualityVersion,
    QualityActivation,
    lock=0x51_75_1C_E9,
    neutral=written(QualityDocument(QualityModel({}, (), {}), {})),
)
