"""A host of mail that is real (aiosmtpd): STARTTLS and a login, and it keeps what it takes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult

USER, PASSWORD = "sluice", "a secret: pass"


@dataclass
class MailHost:
    """`answer` is what it says to a whole mail, `welcomes` to a recipient."""

    port: int = 0
    taken: list[EmailMessage] = field(default_factory=list)
    envelopes: list[tuple[str | None, list[str]]] = field(default_factory=list)
    answer: str = "250 taken"
    welcomes: str = "250 welcome"
    was_encrypted: list[bool] = field(default_factory=list)

    async def handle_RCPT(
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        envelope.rcpt_tos.append(address)
        return self.welcomes

    async def handle_DATA(self, _server: Any, session: Any, envelope: Any) -> str:
        self.taken.append(BytesParser(policy=default).parsebytes(envelope.content))
        self.envelopes.append((envelope.mail_from, envelope.rcpt_tos))
        self.was_encrypted.append(session.ssl is not None)
        return self.answer


def _knows(_server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> AuthResult:
    is_right = (given.login, given.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=is_right, handled=False)


@asynccontextmanager
async def mail_host(
    tls: ssl.SSLContext | None, *, implicit: bool = False
) -> AsyncIterator[MailHost]:
    """`implicit`: encrypted from the first byte."""
    host = MailHost()
    loop = asyncio.get_running_loop()
    login: dict[str, Any] = {"auth_required": True, "authenticator": _knows}
    if implicit:
        login |= {"auth_require_tls": False}
    else:
        login |= {"tls_context": tls, "require_starttls": True}
    if tls is None:
        login = {}
    server = await loop.create_server(
        lambda: SMTP(host, loop=loop, hostname="mail.example", **login),
        *("127.0.0.1", 0),
        ssl=tls if implicit else None,
    )
    host.port = server.sockets[0].getsockname()[1]
    try:
        yield host
    finally:
        server.close()
