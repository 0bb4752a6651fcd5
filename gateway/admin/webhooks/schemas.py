"""Endpoints of webhooks, and how each event was told to them."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, NonNegativeInt

from billing.outbox.addresses import target_of
from billing.outbox.event import EventType
from billing.outbox.mail.address import address_of, is_mailed
from gateway.api.fields import Text
from gateway.api.schemas import Answer, At, Body, NoneIfEmpty
from gateway.fields import Label


def _url(url: str) -> str:
    address_of(url) if is_mailed(url) else target_of(url)
    return url


Url = Annotated[
    str,
    Field(
        max_length=2000,
        examples=["https://example.com/hooks"],
        description="https://..., mailto:ADDRESS, or mailto: for the address of each "
        "organization's billing profile",
    ),
    AfterValidator(_url),
]
Events = Annotated[list[EventType], Field(max_length=50)]
Note = Annotated[Text, Field(max_length=500)]


class WebhookBody(Body):
    url: Url
    events: Events = Field([], description="[] is all but `usage`")
    organization: Label | None = Field(None, description="null is every organization")
    note: Note = ""


class WebhookChange(Body):
    url: Url | None = None
    events: Events | None = None
    enabled: bool | None = None
    note: Note | None = None


class RotateBody(Body):
    keep_s: float = Field(
        86_400.0,
        strict=True,
        ge=0,
        le=2_592_000,
        description="how long the secret of before signs too",
    )


class ReplayBody(Body):
    since: At = Field(description="all that was to be told since then")


class WebhookAnswer(Answer):
    object: Literal["webhook"] = "webhook"
    id: str = Field(validation_alias="endpoint_id")
    url: str
    events: list[EventType]
    organization: NoneIfEmpty = Field(validation_alias="org")
    enabled: bool = Field(validation_alias="is_enabled")
    note: NoneIfEmpty
    created_at: At = Field(validation_alias="created_us")
    changed_at: At = Field(validation_alias="changed_us")


class WebhookWithSecret(WebhookAnswer):
    secret: str = Field(description="shown this once", examples=["whsec_..."])


class TryAnswer(Answer):
    at: At = Field(validation_alias="at_us")
    status: int | None = Field(description="of the answer; null where none came")
    problem: NoneIfEmpty


class DeliveryAnswer(Answer):
    object: Literal["webhook_delivery"] = "webhook_delivery"
    event: str = Field(validation_alias="event_id", description="the `webhook-id` of each sending")
    type: EventType
    state: Literal["pending", "delivered", "failed"]
    tries: NonNegativeInt = Field(description="since it was written or replayed")
    due_at: At = Field(validation_alias="due_us")
    created_at: At = Field(validation_alias="created_us")
    log: list[TryAnswer]


class ReplayAnswer(Answer):
    object: Literal["webhook_replay"] = "webhook_replay"
    deliveries: NonNegativeInt
