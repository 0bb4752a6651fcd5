"""Rows of kept documents: which file each form of a document is, and the contents by SHA-256.

Both are insert-only by triggers: a form of an issued document is made once.
"""

from __future__ import annotations

from sqlalchemy import BigInteger as Big
from sqlalchemy import LargeBinary
from sqlmodel import Field, SQLModel


class DocumentContent(SQLModel, table=True):
    """Bytes by their SHA-256, in hexadecimal."""

    __tablename__ = "document_content"
    sha256: str = Field(primary_key=True)
    content: bytes = Field(sa_type=LargeBinary)


class DocumentFile(SQLModel, table=True):
    """One form of one issued document. The form `document` is the frozen value itself, of which all
    others are made."""

    __tablename__ = "document_file"
    document_id: str = Field(primary_key=True)
    form: str = Field(primary_key=True)
    sha256: str = Field(foreign_key="document_content.sha256")
    created_us: int = Field(sa_type=Big)
