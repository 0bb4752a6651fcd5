"""Rows of tenants: organizations, projects, keys and what they may use."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index, LargeBinary
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel

from billing.db.columns import SERIAL
from gateway.fields import Label
from gateway.tenants.billing_modes import POSTPAID
from gateway.tenants.entitlement import EntitlementFields


class OrganizationFields(SQLModel):
    """What can be said of an organization, declared once: for the admin API, the row in SQL and the
    OpenAPI document."""

    tier: Label | None = Field(
        default=None,
        description="what it bought, in the operator's words: `tenant.tier` of routing policies",
        schema_extra={"examples": ["gold"]},
    )


class Organization(OrganizationFields, table=True):
    """The tenant: who is invoiced."""

    __tablename__ = "organization"
    __table_args__ = (
        CheckConstraint("settlement_mode IN ('postpaid','prepaid')", name="settlement_mode_known"),
        CheckConstraint("credit_limit_nanousd >= 0", name="credit_limit_not_negative"),
        CheckConstraint(
            "insufficient_quota_status IN (402,429)", name="insufficient_quota_status_known"
        ),
    )
    id: str = Field(primary_key=True)
    name: str
    slug: str = Field(unique=True)
    status: str = "active"
    created_us: int = Field(sa_type=Big)
    settlement_mode: str = Field(default=POSTPAID, sa_column_kwargs={"server_default": POSTPAID})
    credit_limit_nanousd: int | None = Field(default=None, sa_type=Big)
    """The most it may owe; none is no limit where it pays afterwards, and zero where before."""
    insufficient_quota_status: int = Field(default=429, sa_column_kwargs={"server_default": "429"})
    """What a call is answered that its money does not cover."""


class Project(SQLModel, table=True):
    """A part of an organization with keys and limits of its own."""

    __tablename__ = "project"
    __table_args__ = (Index("project_org", "org_id"),)
    id: str = Field(primary_key=True)
    org_id: str = Field(foreign_key="organization.id")
    name: str
    status: str = "active"
    created_us: int = Field(sa_type=Big)


class ApiKey(SQLModel, table=True):
    """Who calls. What proves it is in `key_secret`; `prefix` shows the newest of its secrets."""

    __tablename__ = "api_key"
    __table_args__ = (Index("api_key_project", "project_id"), Index("api_key_org", "org_id"))
    id: str = Field(primary_key=True)
    project_id: str = Field(foreign_key="project.id")
    org_id: str = Field(foreign_key="organization.id")
    name: str
    prefix: str
    created_us: int = Field(sa_type=Big)
    expires_us: int | None = Field(default=None, sa_type=Big)
    revoked_us: int | None = Field(default=None, sa_type=Big)
    is_bootstrap: bool = False


class KeySecret(SQLModel, table=True):
    """A secret of a key, kept only as its SHA-256: one, or two while the key is rotated."""

    __tablename__ = "key_secret"
    __table_args__ = (
        Index("key_secret_key", "key_id"),
        Index("key_secret_created", "created_us"),
    )
    hash: bytes = Field(sa_type=LargeBinary, primary_key=True)
    key_id: str = Field(foreign_key="api_key.id")
    created_us: int = Field(sa_type=Big)
    expires_us: int | None = Field(default=None, sa_type=Big)


class Entitlement(EntitlementFields, table=True):
    """What one scope may use. A call needs all three of its scopes' leave."""

    __tablename__ = "entitlement"
    scope: str = Field(primary_key=True)


class Audit(SQLModel, table=True):
    """What an administrator did."""

    __tablename__ = "audit"
    __table_args__ = (Index("audit_at", "at_us"),)
    id: int | None = Field(default=None, primary_key=True, sa_type=SERIAL)
    at_us: int = Field(sa_type=Big)
    actor: str
    action: str
    object: str
    detail: dict[str, Any] = Field(default_factory=dict, sa_type=JSON)
