"""Endpoints of webhooks as an administrator keeps them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from billing.db.engine import Store
from billing.outbox import store as rows
from billing.outbox.event import SECRET_BYTES, EventType, new_secret
from billing.outbox.mail.address import is_mailed
from billing.outbox.usage.places import follow
from gateway.admin.use_cases import NotThere, attempt
from gateway.admin.webhooks.schemas import RotateBody, WebhookBody, WebhookChange
from gateway.api.dependencies import parts_of
from gateway.api.pages import Key, PageRequest, PageRows, Source, read_page
from gateway.errors import bad_request
from routing.types import Clock

MICROSECONDS = 1_000_000
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class WebhookService:
    """Raises ApiError: 404 for what is not there, 400 for an endpoint that nothing can reach."""

    ledger: Store
    clock: Clock
    entropy: Callable[[int], bytes]
    has_mail: bool

    async def create(self, body: WebhookBody) -> Row:
        self._must_be_reachable(body.url)
        now_us = self._now_us
        row = {
            **{"endpoint_id": f"wh_{self.entropy(12).hex()}", "url": body.url},
            **{"events": [each.value for each in body.events], "org": body.organization or ""},
            **{"note": body.note, "is_enabled": True, "secret": self._secret()},
            **{"previous_secret": "", "previous_until_us": 0},
            **{"created_us": now_us, "changed_us": now_us},
        }

        _refuse_mailed_usage(row)

        def work() -> Row:
            with self.ledger.write() as conn:
                rows.insert_endpoint(conn, row)
                follow(conn, row, now_us)
            return row

        return await attempt(work)

    async def change(self, webhook_id: str, body: WebhookChange) -> Row:
        self._must_be_reachable(body.url)
        values = body.model_dump(mode="json", exclude_none=True)
        if "enabled" in values:
            values["is_enabled"] = values.pop("enabled")
        return await self._changed(webhook_id, lambda _: values)

    async def rotate(self, webhook_id: str, body: RotateBody) -> Row:
        until_us = self._now_us + int(body.keep_s * MICROSECONDS)

        def values(row: Row) -> Row:
            before = {"previous_secret": row["secret"], "previous_until_us": until_us}
            return before | {"secret": self._secret()}

        return await self._changed(webhook_id, values)

    async def delete(self, webhook_id: str) -> Row:
        def work() -> Row:
            with self.ledger.write() as conn:
                row = _there(rows.endpoint(conn, webhook_id), webhook_id)
                rows.delete_endpoint(conn, webhook_id)
                return row

        return await attempt(work)

    async def replay(
        self, webhook_id: str, *, event_id: str | None = None, since_us: int = 0
    ) -> Row:
        now_us = self._now_us

        def work() -> Row:
            with self.ledger.write() as conn:
                _there(rows.endpoint(conn, webhook_id), webhook_id)
                count = rows.replay(conn, webhook_id, now_us, event_id=event_id, since_us=since_us)
            if event_id is not None and not count:
                raise NotThere(event_id)
            return {"deliveries": count}

        return await attempt(work)

    async def page(self, request: PageRequest) -> PageRows[Row]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, Row]]:
            after = None if behind is None else behind[0]
            with self.ledger.read() as conn:
                found = rows.endpoints(conn, after=after, limit=limit)
            return [((row["endpoint_id"],), row) for row in found]

        return await attempt(lambda: read_page(request, Source((str,), read)))

    async def deliveries(
        self, request: PageRequest, webhook_id: str, state: str | None
    ) -> PageRows[Row]:
        def read(behind: Key | None, limit: int) -> Sequence[tuple[Key, Row]]:
            after = None if behind is None else (behind[0], behind[1])
            with self.ledger.read() as conn:
                _there(rows.endpoint(conn, webhook_id), webhook_id)
                found = rows.deliveries(conn, webhook_id, state=state, after=after, limit=limit)
            return [((row["created_us"], row["event_id"]), row) for row in found]

        return await attempt(lambda: read_page(request, Source((int, str), read)))

    def _must_be_reachable(self, url: str | None) -> None:
        if url is not None and is_mailed(url) and not self.has_mail:
            raise bad_request("url: no mail server is set. Set host of [mail].", "url")

    async def _changed(self, webhook_id: str, values: Callable[[Row], Row]) -> Row:
        now_us = self._now_us

        def work() -> Row:
            with self.ledger.write() as conn:
                row = _there(rows.endpoint(conn, webhook_id), webhook_id)
                changed = values(row) | {"changed_us": now_us}
                _refuse_mailed_usage(row | changed)
                rows.change_endpoint(conn, webhook_id, **changed)
                follow(conn, row | changed, now_us)
                return row | changed

        return await attempt(work)

    def _secret(self) -> str:
        return new_secret(self.entropy(SECRET_BYTES))

    @property
    def _now_us(self) -> int:
        return round(self.clock() * 1e6)


def _refuse_mailed_usage(row: Row) -> None:
    if EventType.USAGE in row["events"] and is_mailed(row["url"]):
        raise bad_request("Usage is not sent by mail.", "events", "invalid_value")


def _there(row: Row | None, name: str) -> Row:
    if row is None:
        raise NotThere(name)
    return row


async def webhooks_of(request: Request) -> WebhookService:
    parts = parts_of(request)
    has_mail = bool(parts.settings.mail.host)
    return WebhookService(parts.ledger, parts.outside.clock, parts.outside.entropy, has_mail)


Webhooks = Annotated[WebhookService, Depends(webhooks_of)]
