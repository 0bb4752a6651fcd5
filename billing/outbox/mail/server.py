"""One mail to one SMTP server: STARTTLS, TLS or neither, with or without a login.

smtplib waits, so it has threads of its own: a server that is slow holds up no other part of the
ledger. One mail has one bound of time; after that its connection is shut, which ends its thread.
"""

from __future__ import annotations

import asyncio
import smtplib
import socket
import ssl
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from email.message import EmailMessage
from enum import StrEnum

from billing.outbox.sender import Sent

SUBMITTED = 250
THREADS = 4


class MailSecurity(StrEnum):
    """How a server is spoken to: encrypted from a command on, from the first byte, or never."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


class _Connection(smtplib.SMTP):
    """A socket that is encrypted from its first byte where it is to be. `shut` may be called by
    another thread."""

    def __init__(self, host: str, timeout_s: float, tls: ssl.SSLContext | None) -> None:
        super().__init__(local_hostname="sluice.invalid", timeout=timeout_s)
        self._host = host  # whose certificate STARTTLS checks
        self._tls = tls
        self._is_shut = False

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        plain = socket.create_connection((host, port), timeout)
        self.sock: socket.socket | None = plain
        if self._is_shut:
            self.shut()
        return self._tls.wrap_socket(plain, server_hostname=host) if self._tls else plain

    def shut(self) -> None:
        self._is_shut = True
        if self.sock is not None:
            with suppress(OSError):
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class MailServer:
    """`user` "" is no login."""

    host: str
    port: int
    security: MailSecurity
    user: str
    password: str
    timeout_s: float
    tls: ssl.SSLContext
    threads: Executor

    async def send(self, message: EmailMessage) -> Sent:
        """The status is that of SMTP."""
        encrypted = self.tls if self.security is MailSecurity.TLS else None
        connection = _Connection(self.host, self.timeout_s, encrypted)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self.timeout_s):
                await loop.run_in_executor(self.threads, self._submit, connection, message)
        except TimeoutError:
            return Sent(None, f"no answer within {self.timeout_s:g} s")
        except smtplib.SMTPRecipientsRefused as refused:
            ((code, words),) = refused.recipients.values()
            return Sent(code, _words(words))
        except smtplib.SMTPResponseException as refused:
            return Sent(refused.smtp_code, _words(refused.smtp_error))
        except (OSError, smtplib.SMTPException, ValueError) as error:
            return Sent(None, f"{type(error).__name__}: {error}")
        finally:
            connection.shut()
        return Sent(SUBMITTED)

    def _submit(self, connection: _Connection, message: EmailMessage) -> None:
        """Raises OSError, smtplib.SMTPException."""
        try:
            code, words = connection.connect(self.host, self.port)
            if code != 220:
                raise smtplib.SMTPConnectError(code, words)
            if self.security is MailSecurity.STARTTLS:
                connection.starttls(context=self.tls)
            if self.user:
                connection.login(self.user, self.password)
            connection.send_message(message)
        finally:
            connection.close()


def _words(words: bytes | str) -> str:
    text = words.decode(errors="replace") if isinstance(words, bytes) else words
    return " ".join(text.split())
