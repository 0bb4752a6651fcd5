"""`/admin/v1/webhooks`: who is told of events, and how each telling went."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path

from gateway.admin.webhooks.schemas import (
    DeliveryAnswer,
    ReplayAnswer,
    ReplayBody,
    RotateBody,
    WebhookAnswer,
    WebhookBody,
    WebhookChange,
    WebhookWithSecret,
)
from gateway.admin.webhooks.service import Webhooks
from gateway.api.pages import Paged, PagedBy100
from gateway.api.schemas import Page

router = APIRouter(prefix="/webhooks", tags=["webhooks"])

WebhookId = Annotated[str, Path(max_length=64)]
EventId = Annotated[str, Path(max_length=64)]


@router.post("", status_code=201, response_model=WebhookWithSecret)
async def create_webhook(webhooks: Webhooks, body: WebhookBody) -> Any:
    """The secret is shown this once. Events that come from now on are sent, signed by Standard
    Webhooks."""
    return await webhooks.create(body)


@router.get("", response_model=Page[WebhookAnswer])
async def list_webhooks(webhooks: Webhooks, request: Paged) -> Any:
    """By their ids."""
    return await webhooks.page(request)


@router.patch("/{webhook_id}", response_model=WebhookAnswer)
async def change_webhook(webhooks: Webhooks, webhook_id: WebhookId, body: WebhookChange) -> Any:
    """What is disabled is sent nothing, and hears of no event that comes meanwhile."""
    return await webhooks.change(webhook_id, body)


@router.delete("/{webhook_id}", response_model=WebhookAnswer)
async def delete_webhook(webhooks: Webhooks, webhook_id: WebhookId) -> Any:
    """With its delivery log."""
    return await webhooks.delete(webhook_id)


@router.post("/{webhook_id}/rotate", response_model=WebhookWithSecret)
async def rotate_webhook(webhooks: Webhooks, webhook_id: WebhookId, body: RotateBody) -> Any:
    """A new secret. Both sign for a while."""
    return await webhooks.rotate(webhook_id, body)


@router.post("/{webhook_id}/replay", response_model=ReplayAnswer)
async def replay_webhook(webhooks: Webhooks, webhook_id: WebhookId, body: ReplayBody) -> Any:
    """Send all again that it was to be told since an instant, under the ids of before."""
    return await webhooks.replay(webhook_id, since_us=body.since)


@router.get("/{webhook_id}/deliveries", response_model=Page[DeliveryAnswer])
async def list_deliveries(
    webhooks: Webhooks,
    webhook_id: WebhookId,
    request: PagedBy100,
    state: Literal["pending", "delivered", "failed"] | None = None,
) -> Any:
    """The oldest first, each with the answer to every sending."""
    return await webhooks.deliveries(request, webhook_id, state)


@router.post("/{webhook_id}/deliveries/{event_id}/replay", response_model=ReplayAnswer)
async def replay_delivery(webhooks: Webhooks, webhook_id: WebhookId, event_id: EventId) -> Any:
    """Send one event again, under its id."""
    return await webhooks.replay(webhook_id, event_id=event_id)
