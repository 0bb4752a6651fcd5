"""Deliveries of the outbox that go by mail: whom each is for, and one sending."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from billing.db.engine import Store
from billing.outbox.addresses import BadUrl
from billing.outbox.mail.address import address_of, is_address
from billing.outbox.mail.letter import Reader, message_of
from billing.outbox.mail.server import MailServer
from billing.outbox.sender import Sent
from billing.parties import store as parties


@dataclass(frozen=True, slots=True)
class MailChannel:
    """`sender` is NAME <ADDRESS>."""

    store: Store
    server: MailServer
    sender: str

    async def send(self, delivery: dict[str, Any]) -> Sent:
        try:
            reader = await asyncio.to_thread(self._reader, delivery)
        except BadUrl as wrong:
            return Sent(None, str(wrong))
        if not is_address(reader.address):
            return Sent(None, "the organization's billing profile has no e-mail address")
        named = {"event_id": delivery["event_id"], "endpoint_id": delivery["endpoint_id"]}
        message = message_of(delivery["body"], reader, sender=self.sender, **named)
        return await self.server.send(message)

    def _reader(self, delivery: dict[str, Any]) -> Reader:
        """Raises BadUrl."""
        org, address = delivery["org"], address_of(delivery["url"])
        with self.store.read() as conn:
            billed = parties.contact(conn, org)
        if billed is None:
            return Reader(address or "", org)
        seller, buyer = billed
        name = buyer.legal_name
        return Reader(address or buyer.email, name, seller.legal_name, buyer.language)
