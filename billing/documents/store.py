"""Statements on kept documents. What is kept first stays: a second making changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256

import msgspec
from sqlalchemy import Connection, select

from billing.db.columns import table_of
from billing.db.insert import insert_new
from billing.documents.document import Document
from billing.documents.tables import DocumentContent, DocumentFile

CONTENT = table_of(DocumentContent)
FILE = table_of(DocumentFile)
FROZEN_FORM = "document"


@dataclass(frozen=True, slots=True)
class KeptFile:
    sha256: str
    content: bytes


def kept(conn: Connection, document_id: str, form: str) -> KeptFile | None:
    row = conn.execute(
        select(FILE.c.sha256, CONTENT.c.content)
        .join(CONTENT, CONTENT.c.sha256 == FILE.c.sha256)
        .where(FILE.c.document_id == document_id, FILE.c.form == form)
    ).one_or_none()
    return None if row is None else KeptFile(row.sha256, bytes(row.content))


def keep(conn: Connection, document_id: str, form: str, content: bytes, now_us: int) -> KeptFile:
    """The file as it is kept from now on: this one, unless another was kept before."""
    name = sha256(content).hexdigest()
    insert_new(conn, CONTENT, [{"sha256": name, "content": content}])
    row = {"document_id": document_id, "form": form, "sha256": name, "created_us": now_us}
    insert_new(conn, FILE, [row])
    file = kept(conn, document_id, form)
    assert file is not None
    return file


def freeze(conn: Connection, document_id: str, document: Document, now_us: int) -> Document:
    """The value of an issued document as it is frozen from now on. Call it where the number is
    given, in the same transaction."""
    content = msgspec.msgpack.encode(document)
    return _thawed(keep(conn, document_id, FROZEN_FORM, content, now_us))


def frozen(conn: Connection, document_id: str) -> Document | None:
    file = kept(conn, document_id, FROZEN_FORM)
    return None if file is None else _thawed(file)


def _thawed(file: KeptFile) -> Document:
    return msgspec.msgpack.decode(file.content, type=Document)
