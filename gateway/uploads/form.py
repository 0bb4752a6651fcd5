"""A body of `multipart/form-data`, read as it comes: text into memory, files into the folder.

Everything is bounded: a file, all text together, the number of parts, their heads. A body that is
refused, late or cut off leaves nothing behind.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from gateway.errors import ApiError, bad_request, body_too_large, unsupported_media_type
from gateway.uploads.folder import Upload, UploadFolder, file_too_large
from gateway.wire.bodies.checks import missing

MULTIPART = "multipart/form-data"
TEXT_BYTES_MAX = 256 << 10
PARTS_MAX = 64
FRAME_BYTES_MAX = 64 << 10
"""Of heads and boundaries, in a body that is announced."""
PIECE_BYTES = 256 << 10
OF_A_LIST = "[]"
"""What OpenAI's clients write behind the name of a field that may be there several times."""


class FileRule(NamedTuple):
    """How many files a field may have, and how large each of them may be."""

    count_max: int
    bytes_max: int


@dataclass(frozen=True, slots=True)
class FormRules:
    """The fields that are files. There has to be a file of the first one."""

    files: Mapping[str, FileRule]

    @property
    def first(self) -> str:
        return next(iter(self.files))

    @property
    def body_bytes_max(self) -> int:
        files = sum(rule.count_max * rule.bytes_max for rule in self.files.values())
        return files + TEXT_BYTES_MAX + FRAME_BYTES_MAX


@dataclass(slots=True)
class UploadedForm:
    """What was sent, by field. Whoever has it closes it."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, list[Upload]] = field(default_factory=dict)
    lists: set[str] = field(default_factory=set)
    """Fields whose name said that they are one."""
    text_bytes: int = 0

    def identity(self) -> bytes:
        """What two bodies have in common that ask for the same, whatever their boundary is."""
        files = {name: [each.sha256 for each in files] for name, files in self.files.items()}
        return msgspec.json.encode((self.texts, files), order="sorted")

    def close(self) -> None:
        for files in self.files.values():
            for each in files:
                each.close()


async def read_form(
    pieces: AsyncIterator[bytes], headers: Mapping[str, str], folder: UploadFolder, rules: FormRules
) -> UploadedForm:
    """Raises ApiError: 400 that names a field, 413, 415, and 503 where the folder is full."""
    parser, parts = _parser(headers, folder, rules)
    try:
        async for whole in pieces:
            for start in range(0, len(whole), PIECE_BYTES):
                _feed(parser, whole[start : start + PIECE_BYTES])
                await parts.write()
        if not parts.is_whole:
            raise _malformed("it ends too early")
        await parts.write()
        _check_files(parts.form, rules)
    except BaseException:
        parts.form.close()
        raise
    return parts.form


def _parser(
    headers: Mapping[str, str], folder: UploadFolder, rules: FormRules
) -> tuple[Any, "_Parts"]:
    """Imported where it is used, as all that reads files: a gateway without any starts as fast."""
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import MultipartParser, parse_options_header

    content_type = headers.get("content-type", "")
    media, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if media != MULTIPART.encode() or not boundary:
        raise unsupported_media_type(content_type, MULTIPART)
    _check_announced(headers, rules)
    parts = _Parts(folder, rules)
    try:
        return MultipartParser(boundary, parts.callbacks()), parts
    except FormParserError as wrong:
        raise _malformed(str(wrong)) from wrong


def _check_announced(headers: Mapping[str, str], rules: FormRules) -> None:
    """A body that announces too much is refused before any of it is read. Where it can have one
    file alone, that file is too large. Where it can have several, nobody knows which one is."""
    announced, most = headers.get("content-length", ""), rules.body_bytes_max
    if not announced.isdigit() or int(announced) <= most:
        return
    only = rules.files[rules.first]
    if len(rules.files) == only.count_max == 1:
        raise file_too_large(rules.first, only.bytes_max)
    raise body_too_large(most)


def _feed(parser: Any, data: bytes) -> None:
    from python_multipart.exceptions import FormParserError

    try:
        parser.write(data)
    except FormParserError as wrong:
        raise _malformed(str(wrong)) from wrong


def _check_files(form: UploadedForm, rules: FormRules) -> None:
    if rules.first not in form.files:
        raise missing(rules.first)
    for each in chain.from_iterable(form.files.values()):
        if each.size == 0:
            message = f"Invalid '{each.field}': the file is empty."
            raise bad_request(message, each.field, "empty_file")


class _Parts:
    """What the parser finds, in its order."""

    def __init__(self, folder: UploadFolder, rules: FormRules) -> None:
        self.form = UploadedForm()
        self.is_whole = False
        self._folder = folder
        self._rules = rules
        self._count = 0
        self._head: dict[bytes, bytes] = {}
        self._name = self._value = b""
        self._field = ""
        self._text = bytearray()
        self._upload: Upload | None = None
        self._unwritten: list[tuple[Upload, bool]] = []

    def callbacks(self) -> Any:
        return {
            "on_part_begin": self._part_begins,
            "on_header_field": self._header_name,
            "on_header_value": self._header_value,
            "on_header_end": self._header_ends,
            "on_headers_finished": self._head_ends,
            "on_part_data": self._data,
            "on_part_end": self._part_ends,
            "on_end": self._end,
        }

    async def write(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        for upload, is_whole in unwritten:
            await upload.write(is_whole=is_whole)

    def _part_begins(self) -> None:
        self._count += 1
        if self._count > PARTS_MAX:
            raise _malformed(f"it has more than {PARTS_MAX} parts")
        self._head = {}
        self._name = self._value = b""

    def _header_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_ends(self) -> None:
        self._head[self._name.lower()] = self._value
        self._name = self._value = b""

    def _head_ends(self) -> None:
        """Raises ApiError 400 for a part that has no name, or is text where a file belongs."""
        from python_multipart.multipart import parse_options_header

        kind, options = parse_options_header(self._head.get(b"content-disposition"))
        name = _utf8("name", options.get(b"name", b""))
        if kind != b"form-data" or not name:
            raise _malformed("a part has no name")
        self._field, is_file = name.removesuffix(OF_A_LIST), b"filename" in options
        if self._field != name:
            self.form.lists.add(self._field)
        self._upload, self._text = None, bytearray()
        rule = self._rules.files.get(self._field)
        if is_file != bool(rule):
            expected = "a file" if rule else "text"
            message = f"Invalid '{self._field}': expected {expected}."
            raise bad_request(message, self._field, "invalid_type")
        if rule is not None:
            self._upload = self._opened(rule)

    def _opened(self, rule: FileRule) -> Upload:
        """Its place stands in its name where there may be several."""
        files, name = self.form.files.setdefault(self._field, []), self._field
        if len(files) >= rule.count_max:
            message = f"Invalid '{name}': at most {rule.count_max} may be sent."
            raise bad_request(message, name, "array_above_max_length")
        if rule.count_max > 1 and (files or name in self.form.lists):
            name = f"{name}[{len(files)}]"
        files.append(self._folder.open(name, rule.bytes_max))
        return files[-1]

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._upload is not None:
            self._upload.add(data[start:end])
            self._unwritten.append((self._upload, False))
            return
        self.form.text_bytes += end - start
        if self.form.text_bytes > TEXT_BYTES_MAX:
            message = f"The text of the form is larger than {TEXT_BYTES_MAX} bytes."
            raise ApiError(413, message, code="request_too_large", param=self._field)
        self._text += data[start:end]

    def _part_ends(self) -> None:
        if self._upload is not None:
            self._unwritten.append((self._upload, True))
        else:
            texts = self.form.texts.setdefault(self._field, [])
            texts.append(_utf8(self._field, self._text))

    def _end(self) -> None:
        self.is_whole = True


def _utf8(name: str, data: bytes | bytearray) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as wrong:
        raise bad_request(f"Invalid '{name}': it is no UTF-8.", name, "invalid_value") from wrong


def _malformed(why: str) -> ApiError:
    return bad_request(f"We could not read the multipart body of your request: {why}.")
