"""Which files are images, how many pixels they say that they have, and which are cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import ApiError
from gateway.images.pictures import SIDE_MAX, Picture, picture_of
from gateway.uploads.folder import UploadFolder
from tests.gateway.images.pictures import jpeg, png, webp
from tests.gateway.uploads.forms import wav

Read = Callable[[bytes], Picture]
WEBPS = {f"webp of {kind!r}": webp(4, 7, kind) for kind in (b"VP8L", b"VP8 ", b"VP8X")}
WHOLE = {"png": png(4, 7), "jpg": jpeg(4, 7)} | WEBPS


@pytest.fixture
def read(tmp_path: Path) -> Read:
    folder = UploadFolder(tmp_path / "uploads", 1 << 30)
    folder.clear()

    def read_one(data: bytes) -> Picture:
        upload = folder.open("image", 1 << 30)
        upload.add(data)
        asyncio.run(upload.write(is_whole=True))
        return picture_of(upload)

    return read_one


@pytest.mark.parametrize("kind", WHOLE)
def test_an_image_is_known_by_what_is_in_it(read: Read, kind: str) -> None:
    picture = read(WHOLE[kind])
    assert picture.format.extension == kind.split()[0]
    assert picture.sides == (4, 7)


@pytest.mark.parametrize("kind", WHOLE)
def test_an_image_that_is_cut_anywhere_is_refused(read: Read, kind: str) -> None:
    data = WHOLE[kind]
    for length in range(1, len(data)):
        with pytest.raises(ApiError) as refused:
            read(data[:length])
        assert (refused.value.status, refused.value.param) == (400, "image")
    assert "cut off" in refused.value.message


NO_IMAGE = {
    "sound": wav(1),
    "text": b"hello, this is a text and no image at all",
    "a GIF": b"GIF89a" + bytes(100),
    "no first head": png()[:20] + b"\xff" + png()[21:],
    "a PNG of nothing": png()[:33] + png()[-12:],
    "a JPEG of nothing": b"\xff\xd8\xff\xda\0\x02\xff\xd9",
    "a WebP of nothing": b"RIFF\x1a\0\0\0WEBPEXIF\x0e\0\0\0" + bytes(14),
}
TOO_LARGE = {"a side of none": jpeg(0, 4), "too wide": jpeg(SIDE_MAX + 1, 4)}


@pytest.mark.parametrize("data", [*NO_IMAGE.values(), *TOO_LARGE.values()])
def test_what_is_no_image_is_refused_by_its_field(read: Read, data: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        read(data)
    assert (refused.value.status, refused.value.param) == (400, "image")
    assert (refused.value.code == "invalid_image_size") == (data in TOO_LARGE.values())


HEADS = [png()[:33], b"\xff\xd8\xff", *(data[:20] for data in WEBPS.values())]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(head=st.sampled_from(HEADS), rest=st.binary(max_size=400))
def test_nonsense_is_an_image_of_some_size_or_a_400(read: Read, head: bytes, rest: bytes) -> None:
    try:
        picture = read(head + rest)
    except ApiError as refused:
        assert (refused.status, refused.param) == (400, "image")
    else:
        assert all(1 <= side <= SIDE_MAX for side in picture.sides)
