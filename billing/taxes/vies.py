"""VIES, by which the tax offices of the European Union say whether a VAT id is in use.

One POST of JSON, within one bound of time, to the URL of the settings. Whatever is no clear answer
is none (NoVatAnswer): an error of a member state, another status than 200, a text that is no JSON,
an answer about another id. Source: https://ec.europa.eu/taxation_customs/vies/
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any

import httptools
import msgspec

from billing.outbox.addresses import target_of
from billing.outbox.sender import posted
from billing.taxes.vat_lookup import NoVatAnswer, VatAnswer, can_be_looked_up

ANSWER_BYTES_MAX = 65_536
PIECE_BYTES = 16_384
CONSULTATION_MAX = 64
HEADERS = {"accept": "application/json", "user-agent": "sluice/1"}
CLEAR = ("", "VALID", "INVALID")
"""What `userError` says beside an answer."""


@dataclass(frozen=True, slots=True)
class Vies:
    """Satisfies `VatLookup`."""

    url: str
    timeout_s: float
    tls: ssl.SSLContext

    async def __call__(self, vat_id: str, requester: str) -> VatAnswer:
        try:
            async with asyncio.timeout(self.timeout_s):
                status, text = await self._post(_question(vat_id, requester))
        except TimeoutError as late:
            raise NoVatAnswer(f"no answer within {self.timeout_s:g} s") from late
        except (OSError, ValueError, httptools.HttpParserError) as error:
            raise NoVatAnswer(f"{type(error).__name__}: {error}") from error
        return answer_of(status, text, vat_id)

    async def _post(self, question: bytes) -> tuple[int, bytes]:
        target = target_of(self.url)
        async with posted(target, target.host, HEADERS, question, self.tls) as reader:
            return await _read(reader)


class _Reply:
    """What a parser of HTTP tells of an answer."""

    def __init__(self) -> None:
        self.text = b""
        self.is_whole = False

    def on_body(self, piece: bytes) -> None:
        self.text += piece

    def on_message_complete(self) -> None:
        self.is_whole = True


async def _read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    reply = _Reply()
    parser: Any = httptools.HttpResponseParser(reply)
    size = 0
    while not reply.is_whole and (piece := await reader.read(PIECE_BYTES)):
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise NoVatAnswer(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
        parser.feed_data(piece)
    if not size:
        raise NoVatAnswer("it hung up without an answer")
    return int(parser.get_status_code()), reply.text


def _question(vat_id: str, requester: str) -> bytes:
    body = {"countryCode": vat_id[:2], "vatNumber": vat_id[2:]}
    if can_be_looked_up(requester):
        body |= {"requesterMemberStateCode": requester[:2], "requesterNumber": requester[2:]}
    return msgspec.json.encode(body)


def answer_of(status: int, text: bytes, vat_id: str) -> VatAnswer:
    """What VIES said of an id. Raises NoVatAnswer."""
    try:
        said = msgspec.json.decode(text)
    except msgspec.DecodeError as nonsense:
        raise NoVatAnswer(f"status {status}, and no JSON") from nonsense
    if not isinstance(said, dict):
        raise NoVatAnswer(f"status {status}, and no object")
    is_valid, error = said.get("valid"), said.get("userError", "")
    if status != 200 or not isinstance(is_valid, bool) or error not in CLEAR:
        raise NoVatAnswer(f"status {status}, {str(said.get('errorWrappers') or error)[:200]}")
    named = f"{said.get('countryCode', vat_id[:2])}{said.get('vatNumber', vat_id[2:])}"
    if named != vat_id:
        raise NoVatAnswer("an answer about another VAT id")
    consultation = said.get("requestIdentifier") or ""
    if not isinstance(consultation, str) or len(consultation) > CONSULTATION_MAX:
        raise NoVatAnswer("a consultation number that is none")
    return VatAnswer(is_valid, consultation)
