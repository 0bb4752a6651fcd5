"""Rows of routing policies."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Index
from sqlmodel import Field

from gateway.versions.tables import Activation, Kind, Version


class PolicyVersion(Version, table=True):
    __tablename__ = "policy_version"


class PolicyActivation(Activation, table=True):
    __tablename__ = "policy_activation"
    __table_args__ = (Index("policy_activation_version", "version", "number"),)
    version: int = Field(foreign_key="policy_version.version")


POLICIES: Final = Kind("policy", PolicyVersion, PolicyActivation, lock=0x51_75_1C_E8)
