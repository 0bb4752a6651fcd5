"""The rows of tenants and catalog: who may call, within which limits, and what there is.

Money and prices belong to `billing`; nothing here is read on the hot path.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index, LargeBinary
from sqlalchemy import BigInteger as Big
from sqlalchemy import Integer as Int
from sqlmodel import Field, SQLModel

SERIAL = Big().with_variant(Int, "sqlite")  # SQLite counts up only an INTEGER primary key


POSTPAID, PREPAID = "postpaid", "prepaid"


class Organization(SQLModel, table=True):
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


class Entitlement(SQLModel, table=True):
    """What one scope may use; null is everything. A call needs all three of its scopes' leave."""

    __tablename__ = "entitlement"
    scope: str = Field(primary_key=True)
    models: list[str] | None = Field(default=None, sa_type=JSON)
    tiers: list[str] | None = Field(default=None, sa_type=JSON)
    capacity_classes: list[str] | None = Field(default=None, sa_type=JSON)


class Limits(SQLModel, table=True):
    """Limits and budget of one scope: `key:<id>`, `project:<id>` or `org:<id>`."""

    __tablename__ = "limits"
    __table_args__ = (
        CheckConstraint("budget_window IN ('total','month')", name="budget_window_known"),
    )
    scope: str = Field(primary_key=True)
    requests_per_minute: int | None = Field(default=None, sa_type=Big)
    request_burst: int | None = Field(default=None, sa_type=Big)
    tokens_per_minute: int | None = Field(default=None, sa_type=Big)
    token_burst: int | None = Field(default=None, sa_type=Big)
    input_tokens_per_minute: int | None = Field(default=None, sa_type=Big)
    input_token_burst: int | None = Field(default=None, sa_type=Big)
    output_tokens_per_minute: int | None = Field(default=None, sa_type=Big)
    output_token_burst: int | None = Field(default=None, sa_type=Big)
    concurrency: int | None = Field(default=None, sa_type=Big)
    budget_nanousd: int | None = Field(default=None, sa_type=Big)
    budget_window: str = "month"


class NarrowLimits(SQLModel, table=True):
    """Limits that one model, one end user or (`*`) every end user has within an owner's scope.

    An end user with a row of its own is not under that of every end user.
    """

    __tablename__ = "narrow_limits"
    __table_args__ = (CheckConstraint("kind IN ('model','user')", name="narrow_kind_known"),)
    owner: str = Field(primary_key=True)
    kind: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    requests_per_minute: int | None = Field(default=None, sa_type=Big)
    request_burst: int | None = Field(default=None, sa_type=Big)
    tokens_per_minute: int | None = Field(default=None, sa_type=Big)
    token_burst: int | None = Field(default=None, sa_type=Big)
    input_tokens_per_minute: int | None = Field(default=None, sa_type=Big)
    input_token_burst: int | None = Field(default=None, sa_type=Big)
    output_tokens_per_minute: int | None = Field(default=None, sa_type=Big)
    output_token_burst: int | None = Field(default=None, sa_type=Big)
    concurrency: int | None = Field(default=None, sa_type=Big)

    @property
    def scope(self) -> str:
        return f"{self.owner}/{self.kind}:{self.name}"


class Outage(SQLModel, table=True):
    """What an organization wants while Redis is away: `local` limits, owing at most the cap to each
    gateway, or to be denied."""

    __tablename__ = "outage"
    __table_args__ = (
        CheckConstraint("mode IN ('local','deny')", name="outage_mode_known"),
        CheckConstraint("mode = 'deny' OR cap_nanousd IS NOT NULL", name="outage_local_capped"),
    )
    org_id: str = Field(primary_key=True, foreign_key="organization.id")
    mode: str
    cap_nanousd: int | None = Field(default=None, sa_type=Big)


class ModelRow(SQLModel, table=True):
    """A public model name and what the router needs to know of it."""

    __tablename__ = "model"
    __table_args__ = (CheckConstraint("task IN ('generate','embed')", name="task_known"),)
    name: str = Field(primary_key=True)
    path: str | None = None
    context_tokens: int
    max_output_tokens: int
    size_rank: int
    quality: float
    task: str = "generate"
    created_us: int = Field(default=0, sa_type=Big)
    image_tokens: int | None = None
    """The most tokens of a prompt that one image may cost; NULL for a model that takes none."""
    origin: str | None = None
    """What was declared, where that is not the folder in `path` itself."""
    checksum: str | None = None
    """SHA-256 over the files of the folder, where it was taken into the cache of weights."""
    enabled: bool = True
    source: str = "admin"


class PoolRow(SQLModel, table=True):
    """Interchangeable replicas of one variant on one capacity class, or an external server."""

    __tablename__ = "pool"
    __table_args__ = (
        CheckConstraint(
            "capacity_class IN ('reserved','on_demand','spot','external')",
            name="capacity_class_known",
        ),
    )
    name: str = Field(primary_key=True)
    model: str = Field(foreign_key="model.name")
    variant: str
    capacity_class: str
    engine: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    min_replicas: int = 0
    max_replicas: int = 1
    initial_replicas: int = 0
    idle_s: float = 300.0
    num_cpus: float = 1.0
    num_gpus: float = 0.0
    max_ongoing: int = 8
    cost_nanousd_per_s: int = Field(default=0, sa_type=Big)
    cost_input_nanousd_per_mtok: int = Field(default=0, sa_type=Big)
    cost_output_nanousd_per_mtok: int = Field(default=0, sa_type=Big)
    cold_start_s: float = 10.0
    enabled: bool = True
    source: str = "admin"


class CatalogRevision(SQLModel, table=True):
    """One row, id 1: counts every change of models and pools."""

    __tablename__ = "catalog_revision"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)
    id: int = Field(default=1, primary_key=True, sa_column_kwargs={"autoincrement": False})
    revision: int = Field(default=0, sa_type=Big)


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
