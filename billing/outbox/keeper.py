"""Sends what is in the outbox, in the ledger process, begins the batches of usage, and removes what
is old. It may be killed at any time: what was sent and not noted is sent again under the same
id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from billing.db.engine import Store
from billing.outbox import store as rows
from billing.outbox.event import EventType, signed_headers
from billing.outbox.mail.address import is_mailed
from billing.outbox.mail.channel import MailChannel
from billing.outbox.sender import Sent, WebhookSender
from billing.outbox.usage.batches import batch, cut_batches
from billing.outbox.usage.cloud_event import CONTENT_TYPE

log = logging.getLogger("sluice.ledger.outbox")

MICROSECONDS = 1_000_000
DAY_US = 86_400 * MICROSECONDS
PRUNE_INTERVAL_US = 3_600 * MICROSECONDS
PRUNED_AT_ONCE = 500
AT_ONCE = 100
AT_ONCE_PER_ENDPOINT = 4
SILENT_AT_ONCE = AT_ONCE // 2
"""To endpoints that did not answer last: however many hang, the others have room."""

Delivery = dict[str, Any]


class OutboxKeeper:
    """Endpoints do not wait for each other. An endpoint has a few deliveries on their way, and its
    next ones begin once these are noted. `now` is epoch seconds. Calls are gathered for
    `usage_interval_s` before they are sent. Without `mail` no mail server is set."""

    def __init__(
        self,
        store: Store,
        sender: WebhookSender,
        *,
        interval_s: float,
        keep_days: float,
        usage_interval_s: float,
        now: Callable[[], float],
        mail: MailChannel | None = None,
    ) -> None:
        self._store = store
        self._sender = sender
        self._mail = mail
        self._interval_s = interval_s
        self._keep_us = int(keep_days * DAY_US)
        self._prune_from_us = 0
        self._usage_interval_us = int(usage_interval_s * MICROSECONDS)
        self._now = now
        self._sending: dict[asyncio.Task[Sent], Delivery] = {}
        self._silent: set[str] = set()

    async def run(self) -> None:
        """Run until cancelled. What is on its way then is sent again by whoever runs next."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    moved = await self._begin(tasks) + await asyncio.to_thread(self.prune)
                except (OSError, SQLAlchemyError) as error:
                    log.warning("events wait: %s", error)
                    await asyncio.sleep(self._interval_s)
                    continue
                if not moved:
                    await self._rest()

    async def turn(self) -> int:
        """Send some of what is due, and wait for all of it. How many."""
        async with asyncio.TaskGroup() as tasks:
            begun = await self._begin(tasks)
        await self._note_answers()
        return begun

    async def _begin(self, tasks: asyncio.TaskGroup) -> int:
        """Begin some of what is due to endpoints that have nothing on its way. How many."""
        await self._note_answers()
        if len(self._sending) >= AT_ONCE:
            return 0
        deliveries = await asyncio.to_thread(self._claimed)
        self._sending |= {tasks.create_task(self._send(each)): each for each in deliveries}
        return len(deliveries)

    async def _rest(self) -> None:
        """Until one more has an answer, or for the interval."""
        if self._sending:
            first = asyncio.FIRST_COMPLETED
            await asyncio.wait(self._sending, timeout=self._interval_s, return_when=first)
        else:
            await asyncio.sleep(self._interval_s)

    async def _note_answers(self) -> None:
        answers = {task: task.result() for task in self._sending if task.done()}
        if answers:
            pairs = [(self._sending[task], sent) for task, sent in answers.items()]
            await asyncio.to_thread(self._note, pairs)
            for task, sent in answers.items():
                endpoint_id = self._sending.pop(task)["endpoint_id"]
                (self._silent.add if sent.status is None else self._silent.discard)(endpoint_id)

    def prune(self) -> int:
        """Remove some deliveries that are over and old, and some old events that have none left.
        How many."""
        now_us = self._now_us
        if now_us < self._prune_from_us:
            return 0
        with self._store.write() as conn:
            bound = now_us - self._keep_us, PRUNED_AT_ONCE
            gone = rows.prune(conn, *bound), rows.prune_events(conn, *bound)
        if max(gone) < PRUNED_AT_ONCE:
            self._prune_from_us = now_us + PRUNE_INTERVAL_US
        return sum(gone)

    def _claimed(self) -> list[Delivery]:
        cut_batches(self._store, self._now_us, interval_us=self._usage_interval_us)
        due = self._due()
        if not due:
            return []
        timeouts_s = [self._sender.timeout_s, self._mail.server.timeout_s if self._mail else 0.0]
        until_us = self._now_us + int(2 * max(timeouts_s) * MICROSECONDS)
        with self._store.write() as conn:
            return [delivery for delivery in due if rows.claim(conn, delivery, until_us)]

    def _due(self) -> list[Delivery]:
        """What there is room for, of endpoints that have nothing on their way."""
        busy = [each["endpoint_id"] for each in self._sending.values()]
        room = max(0, SILENT_AT_ONCE - sum(each in self._silent for each in busy))
        with self._store.read() as conn:
            due = rows.due(
                *(conn, self._now_us, AT_ONCE - len(self._sending)),
                of_endpoint=AT_ONCE_PER_ENDPOINT,
                but=sorted({*busy, *(() if room else self._silent)}),
            )
        of_silent = [each for each in due if each["endpoint_id"] in self._silent]
        return [each for each in due if each not in of_silent[room:]]

    async def _send(self, delivery: Delivery) -> Sent:
        if not is_mailed(delivery["url"]):
            return await self._post(delivery)
        if self._mail is None:
            return Sent(None, "no mail server is set: host of [mail]")
        return await self._mail.send(delivery)

    async def _post(self, delivery: Delivery) -> Sent:
        now_us = self._now_us
        secrets = [delivery["secret"]]
        if delivery["previous_secret"] and now_us < delivery["previous_until_us"]:
            secrets.append(delivery["previous_secret"])
        body, more = delivery["body"].encode(), {}
        if delivery["type"] == EventType.USAGE:
            body = await asyncio.to_thread(self._batch, delivery["body"])
            more = {"content-type": CONTENT_TYPE}
        headers = more | signed_headers(secrets, delivery["event_id"], body, now_us)
        return await self._sender.send(delivery["url"], headers, body)

    def _batch(self, body: str) -> bytes:
        with self._store.read() as conn:
            return batch(conn, body)

    def _note(self, answers: Iterable[tuple[Delivery, Sent]]) -> None:
        now_us = self._now_us
        with self._store.write() as conn:
            for delivery, sent in answers:
                rows.note(conn, delivery, status=sent.status, problem=sent.problem, now_us=now_us)

    @property
    def _now_us(self) -> int:
        return int(self._now() * MICROSECONDS)
