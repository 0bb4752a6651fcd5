"""A form as it is sent to a server outside: its files come from the disk while they are sent, for
each attempt again."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import msgspec

from gateway.uploads.form import MULTIPART, OF_A_LIST


class Content(Protocol):
    """What a file holds: an upload, or what somebody made."""

    @property
    def size(self) -> int: ...

    @property
    def sha256(self) -> str: ...

    def pieces(self) -> Iterator[bytes]: ...


@dataclass(frozen=True, slots=True)
class SentFile:
    """Its names are ours: what a caller calls a file is nobody's business but theirs."""

    field: str
    file_name: str
    media_type: str
    content: Content


@dataclass(frozen=True)
class SentForm:
    texts: Sequence[tuple[str, str]]
    files: Sequence[SentFile]

    @cached_property
    def _boundary(self) -> bytes:
        """Made of all that is sent, so that none of it can contain it."""
        digests = [(each.field, each.content.sha256) for each in self.files]
        content = msgspec.json.encode((self.texts, digests))
        return b"sluice-" + hashlib.sha256(content).hexdigest()[:48].encode()

    @property
    def content_type(self) -> str:
        return f"{MULTIPART}; boundary={self._boundary.decode()}"

    @cached_property
    def size(self) -> int:
        files = sum(len(self._head_of(each)) + each.content.size + 2 for each in self.files)
        return len(self._texts()) + files + len(self._end)

    def pieces(self) -> Iterator[bytes]:
        """All of it, `size` bytes."""
        yield self._texts()
        for each in self.files:
            yield self._head_of(each)
            yield from each.content.pieces()
            yield b"\r\n"
        yield self._end

    def _texts(self) -> bytes:
        heads = [(self._head(name), value.encode()) for name, value in self.texts]
        return b"".join([b"%b\r\n\r\n%b\r\n" % pair for pair in heads])

    def _head(self, name: str) -> bytes:
        disposition = b'content-disposition: form-data; name="%b"' % name.encode()
        return b"--%b\r\n%b" % (self._boundary, disposition)

    def _head_of(self, file: SentFile) -> bytes:
        named = b'; filename="%b"\r\n' % file.file_name.encode()
        return (
            self._head(file.field)
            + named
            + b"content-type: %b\r\n\r\n" % (file.media_type.encode())
        )

    @property
    def _end(self) -> bytes:
        return b"--%b--\r\n" % self._boundary


def texts_of(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Fields as a form spells them: a list by its name with brackets, once for each value."""
    texts = []
    for name, value in fields.items():
        if isinstance(value, list | tuple):
            texts += [(f"{name}{OF_A_LIST}", _spelled(each)) for each in value]
        else:
            texts.append((name, _spelled(value)))
    return texts


def _spelled(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
