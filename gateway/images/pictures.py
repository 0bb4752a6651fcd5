"""Files that are images: PNG, JPEG or WebP by what is in them, whole, and of how many pixels.

Nothing is decoded. A file is walked from head to head until its end, in bounded steps.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from gateway.errors import ApiError, bad_request
from gateway.uploads.folder import READ_BYTES, Upload
from gateway.uploads.sent_form import Content

SIDE_MAX = 16_384
"""Pixels. WebP ends there, and no model takes more."""
STEPS_MAX = 100_000
"""Parts of one file: a PNG of 25 MB has about 3,000."""


class PictureFormat(NamedTuple):
    extension: str
    media_type: str


PNG = PictureFormat("png", "image/png")
JPEG = PictureFormat("jpg", "image/jpeg")
WEBP = PictureFormat("webp", "image/webp")
PNG_HEAD = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
PNG_HEAD_BYTES = 33
JPEG_FRAMES = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}
"""Markers of a head that says how large an image is."""
JPEG_BARE = {0x01, *range(0xD0, 0xD8)}
"""Markers that stand alone."""
JPEG_SCAN, JPEG_END = 0xDA, 0xD9
WEBP_IMAGES = (b"VP8 ", b"VP8L", b"ANMF")


class _NoImage(Exception):
    """It is none, or none that is well formed."""


class _CutOff(Exception):
    """It says that there is more of it."""


class Sides(NamedTuple):
    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.width}x{self.height}"


@dataclass(frozen=True, slots=True)
class Picture:
    content: Content
    format: PictureFormat
    sides: Sides


def picture_of(upload: Upload) -> Picture:
    """Reads the file. Raises ApiError 400 naming its field for one that is no image, is not all
    there, or is too large."""
    kind, sides_of = _format_of(upload)
    try:
        sides = sides_of(upload)
    except _NoImage as wrong:
        raise _no_image(upload) from wrong
    except _CutOff as wrong:
        message = f"Invalid '{upload.field}': the image is cut off: it has no end."
        raise bad_request(message, upload.field, "invalid_file_format") from wrong
    if not all(1 <= side <= SIDE_MAX for side in sides):
        message = (
            f"Invalid '{upload.field}': the image is {sides} pixels. A side has 1 to {SIDE_MAX}."
        )
        raise bad_request(message, upload.field, "invalid_image_size")
    return Picture(upload, kind, sides)


def _format_of(upload: Upload) -> tuple[PictureFormat, Callable[[Upload], Sides]]:
    head = upload.read(0, 12)
    if head[:8] == PNG_HEAD[:8]:
        return PNG, _png_sides
    if head[:3] == b"\xff\xd8\xff":
        return JPEG, _jpeg_sides
    if head[:4] == b"RIFF" and head[8:] == b"WEBP":
        return WEBP, _webp_sides
    raise _no_image(upload)


def _png_sides(file: Upload) -> Sides:
    """Its chunks follow each other up to the one that ends it."""
    head = file.read(0, PNG_HEAD_BYTES)
    if len(head) < PNG_HEAD_BYTES:
        raise _CutOff
    if not head.startswith(PNG_HEAD) or zlib.crc32(head[12:29]) != _big(head[29:]):
        raise _NoImage
    start, has_image = PNG_HEAD_BYTES, False
    for _ in range(STEPS_MAX):
        chunk = file.read(start, 8)
        start += 12 + _big(chunk[:4])
        if len(chunk) < 8 or start > file.size:
            raise _CutOff
        has_image = has_image or chunk[4:] == b"IDAT"
        if chunk[4:] == b"IEND" and has_image:
            return Sides(_big(head[16:20]), _big(head[20:24]))
    raise _NoImage


def _jpeg_sides(file: Upload) -> Sides:
    """Its segments follow each other up to the first that is coded, and that one up to the end."""
    start, sides = 2, None
    for _ in range(STEPS_MAX):
        head = file.read(start, 9)
        if len(head) < 4:
            raise _CutOff
        if head[0] != 0xFF or head[1] in (0, JPEG_END):
            raise _NoImage
        if head[1] == 0xFF:  # filling
            start += 1
        elif head[1] in JPEG_BARE:
            start += 2
        else:
            if head[1] in JPEG_FRAMES:
                sides = Sides(_big(head[7:9]), _big(head[5:7]))
            start += 2 + _big(head[2:4])
            if head[1] == JPEG_SCAN:
                break
    if sides is None:
        raise _NoImage
    _check_jpeg_end(file, start)
    return sides


def _check_jpeg_end(file: Upload, start: int) -> None:
    """Coded bytes never look like a marker."""
    while piece := file.read(start, READ_BYTES):
        if bytes((0xFF, JPEG_END)) in piece:
            return
        start += max(1, len(piece) - 1)
    raise _CutOff


def _webp_sides(file: Upload) -> Sides:
    """The first of its chunks says how large it is; one of them has to be an image."""
    end = 8 + _little(file.read(4, 4))
    if end > file.size:
        raise _CutOff
    start, sides = 12, None
    for _ in range(STEPS_MAX):
        head = file.read(start, 18)
        if start + len(head) > end or len(head) < 18:
            raise _NoImage
        sides = sides or _webp_sides_in(head[:4], head[8:])
        if head[:4] in WEBP_IMAGES:
            return sides
        start += 8 + _little(head[4:8]) + head[4] % 2
    raise _NoImage


def _webp_sides_in(name: bytes, data: bytes) -> Sides:
    if name == b"VP8X":
        return Sides(1 + _little(data[4:7]), 1 + _little(data[7:10]))
    if name == b"VP8L" and data[0] == 0x2F:
        bits = _little(data[1:5])
        return Sides(1 + bits % (1 << 14), 1 + (bits >> 14) % (1 << 14))
    if name == b"VP8 " and data[3:6] == b"\x9d\x01\x2a":
        return Sides(_little(data[6:8]) % (1 << 14), _little(data[8:10]) % (1 << 14))
    raise _NoImage


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _no_image(upload: Upload) -> ApiError:
    message = (
        f"Invalid '{upload.field}': this is no image in one of these formats: png, jpeg, webp."
        " What is in the file counts, not its name."
    )
    return bad_request(message, upload.field, "invalid_file_format")
