"""Rows of the outbox: what happened, who is told, and how each telling went; and how far usage has
been told."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, CheckConstraint, Index, true
from sqlalchemy import BigInteger as Big
from sqlmodel import Field, SQLModel


class OutboxEventRow(SQLModel, table=True):
    """What happened, as receivers are told it. It never changes, and is removed when it is old and
    has no delivery left."""

    __tablename__ = "outbox_event"
    __table_args__ = (Index("outbox_event_created", "created_us"),)
    event_id: str = Field(primary_key=True)
    type: str
    org: str
    body: str
    created_us: int = Field(sa_type=Big)


class WebhookEndpoint(SQLModel, table=True):
    """Who is told. `events` of [] are all, `org` "" is every organization. The previous secret
    signs too until `previous_until_us`."""

    __tablename__ = "webhook_endpoint"
    endpoint_id: str = Field(primary_key=True)
    url: str
    events: list[Any] = Field(sa_type=JSON)
    org: str = ""
    note: str = ""
    is_enabled: bool = Field(True, sa_column_kwargs={"server_default": true()})
    secret: str
    previous_secret: str = ""
    previous_until_us: int = Field(0, sa_type=Big)
    created_us: int = Field(sa_type=Big)
    changed_us: int = Field(sa_type=Big)


class WebhookDelivery(SQLModel, table=True):
    """One event for one endpoint."""

    __tablename__ = "webhook_delivery"
    __table_args__ = (
        CheckConstraint("state IN ('pending','delivered','failed')", name="delivery_known"),
        Index("webhook_delivery_due", "state", "due_us"),
        Index("webhook_delivery_event", "event_id"),
    )
    endpoint_id: str = Field(primary_key=True, foreign_key="webhook_endpoint.endpoint_id")
    event_id: str = Field(primary_key=True, foreign_key="outbox_event.event_id")
    state: str = "pending"
    tries: int = 0
    due_us: int = Field(sa_type=Big)
    created_us: int = Field(sa_type=Big)
    changed_us: int = Field(sa_type=Big)


class WebhookTry(SQLModel, table=True):
    """One sending: the status that came, or why none did."""

    __tablename__ = "webhook_try"
    __table_args__ = (Index("webhook_try_of", "endpoint_id", "event_id"),)
    try_id: int | None = Field(None, primary_key=True)
    endpoint_id: str
    event_id: str
    at_us: int = Field(sa_type=Big)
    status: int | None = None
    problem: str = ""


class UsagePlace(SQLModel, table=True):
    """A booking that not every endpoint of usage has yet: its place in booking order, when its
    calls ended, and its corrections as (request id, n)."""

    __tablename__ = "usage_place"
    place_us: int = Field(primary_key=True, sa_type=Big, sa_column_kwargs={"autoincrement": False})
    calls: int
    ended: list[Any] = Field(sa_type=JSON)
    corrections: list[Any] = Field(sa_type=JSON)


class UsageCursor(SQLModel, table=True):
    """How far an endpoint has usage: up to a place and a request id in it. `event_id` is the batch
    that is on its way and ends at `upto`; "" is none."""

    __tablename__ = "usage_cursor"
    endpoint_id: str = Field(primary_key=True, foreign_key="webhook_endpoint.endpoint_id")
    place_us: int = Field(sa_type=Big)
    rid: str = ""
    event_id: str = ""
    upto_us: int = Field(0, sa_type=Big)
    upto_rid: str = ""
    cut_us: int = Field(sa_type=Big)
    """When the newest booking was last in a batch."""
