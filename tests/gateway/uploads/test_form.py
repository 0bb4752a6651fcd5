"""Forms are read whatever way they are cut, and leave nothing behind, whatever becomes of them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import ApiError
from gateway.uploads import form
from gateway.uploads.folder import Upload, UploadFolder
from gateway.uploads.form import FileRule, FormRules, UploadedForm, read_form
from gateway.uploads.sent_form import SentFile, SentForm, texts_of
from tests.gateway.uploads.forms import TYPE, form_body, in_pieces, joined

RULES = FormRules({"file": FileRule(1, 1000), "mask": FileRule(2, 100)})
ALONE = FormRules({"file": FileRule(1, 1000)})
HEADERS = {"content-type": TYPE}


@pytest.fixture
def folder(tmp_path: Path) -> UploadFolder:
    made = UploadFolder(tmp_path / "uploads", bytes_max=10_000)
    made.clear()
    return made


def is_clean(folder: UploadFolder) -> bool:
    """No file, no byte and no descriptor of an upload is left."""
    links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is(fd)]
    is_open = any(link.startswith(str(folder._path)) for link in links)
    return folder.bytes == 0 and not is_open and not list(folder._path.iterdir())


def _is(descriptor: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")


async def read(folder: UploadFolder, body: bytes, size: int = 64) -> UploadedForm:
    return await read_form(in_pieces(body, size), HEADERS, folder, RULES)


CONTENT = st.binary(min_size=1, max_size=300) | st.sampled_from([b"\r\n--a-boundar", b"\r\n--"])


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT, text=st.text(max_size=40), size=st.integers(1, 400))
async def test_a_form_says_what_was_sent_however_it_is_cut(
    folder: UploadFolder, content: bytes, text: str, size: int
) -> None:
    body = form_body(
        [("model", text), ("kinds[]", "a"), ("kinds[]", "b")], [("file", "x", content)]
    )
    read_here = await read(folder, body, size)
    (upload,) = read_here.files["file"]
    assert (joined(upload.pieces()), upload.as_file().read()) == (content, content)
    assert read_here.texts == {"model": [text], "kinds": ["a", "b"]}
    assert (read_here.lists, folder.bytes) == ({"kinds"}, len(content))
    assert not list(folder._path.iterdir()), "a file has no name"
    read_here.close()
    read_here.close()
    assert is_clean(folder)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=CONTENT, text=st.text(max_size=40))
async def test_what_is_sent_on_is_the_same_form_each_time(
    folder: UploadFolder, content: bytes, text: str
) -> None:
    upload = folder.open("file", 1000)
    upload.add(content)
    await upload.write(is_whole=True)
    fields: dict[str, Any] = {"prompt": text, "temperature": 0.5, "kinds": ["a"]}
    sent = SentForm(texts_of(fields), [SentFile("file", "audio.wav", "audio/wav", upload)])
    first, second = joined(sent.pieces()), joined(sent.pieces())
    assert first == second
    assert len(first) == sent.size
    head = f"content-type: {sent.content_type}\r\n\r\n".encode()
    parts = [part for part in message_from_bytes(head + first).walk() if not part.is_multipart()]
    assert len(parts) == 4
    assert b"\r\n\r\n" + content + b"\r\n--" in first
    again = await read_form(
        in_pieces(first, 50), {"content-type": sent.content_type}, folder, RULES
    )
    assert again.texts == {"prompt": [text], "temperature": ["0.5"], "kinds": ["a"]}
    assert joined(again.files["file"][0].pieces()) == content
    again.close()
    upload.close()
    assert is_clean(folder)


LARGEST = ("file", "x", bytes(1000))
WRONG: dict[str, tuple[bytes, int, str | None]] = {
    "one byte more": (form_body(files=[("file", "x", bytes(1001))]), 400, "file"),
    "one byte more of another": (
        form_body(files=[LARGEST, ("mask", "x", bytes(101))]),
        *(400, "mask"),
    ),
    "one byte more of the second": (
        form_body(files=[LARGEST, ("mask", "x", b"1"), ("mask", "x", bytes(101))]),
        *(400, "mask[1]"),
    ),
    "an empty one in a list": (
        form_body(files=[LARGEST, ("mask[]", "x", b""), ("mask[]", "x", b"1")]),
        *(400, "mask[0]"),
    ),
    "no file": (form_body([("model", "m")]), 400, "file"),
    "an empty file": (form_body(files=[("file", "x", b"")]), 400, "file"),
    "text for a file": (form_body([("file", "x")]), 400, "file"),
    "a file for text": (form_body(files=[("model", "x", b"m")]), 400, "model"),
    "two files for one": (form_body(files=[LARGEST, LARGEST]), 400, "file"),
    "no name": (form_body([("", "x")]), 400, None),
    "no end": (form_body(files=[LARGEST], end=False), 400, None),
    "nothing": (b"", 400, None),
    "no form": (b"{}" * 50, 400, None),
    "no text": (form_body([("model", b"\xff")], [LARGEST]), 400, "model"),
    "too much text": (form_body([("model", "m" * (form.TEXT_BYTES_MAX + 1))]), 413, "model"),
    "too many parts": (form_body([("a", "b")] * (form.PARTS_MAX + 1)), 400, None),
    "a large head": (form_body([("a" * 10_000, "b")]), 400, None),
}


@pytest.mark.parametrize(("body", "status", "param"), WRONG.values(), ids=WRONG.keys())
async def test_what_is_wrong_is_named_and_leaves_nothing(
    folder: UploadFolder, body: bytes, status: int, param: str | None
) -> None:
    with pytest.raises(ApiError) as refused:
        await read(folder, body, 4096)
    assert (refused.value.status, refused.value.param) == (status, param)
    assert is_clean(folder)


async def test_a_file_as_large_as_one_may_be_is_taken(folder: UploadFolder) -> None:
    taken = await read(folder, form_body(files=[LARGEST, ("mask", "m", b"1"), ("mask", "n", b"2")]))
    assert [upload.size for upload in taken.files["file"]] == [1000]
    assert len(taken.files["mask"]) == 2
    taken.close()


@pytest.mark.parametrize(
    ("headers", "rules", "status", "param"),
    [
        ({"content-type": "application/json"}, RULES, 415, None),
        ({"content-type": "multipart/form-data"}, RULES, 415, None),
        ({"content-type": f"multipart/form-data; boundary={'b' * 300}"}, RULES, 400, None),
        (HEADERS | {"content-length": str(10**9)}, RULES, 413, None),
        (HEADERS | {"content-length": str(10**9)}, ALONE, 400, "file"),
    ],
)
async def test_a_head_that_is_wrong_is_refused_before_anything_is_read(
    folder: UploadFolder, headers: dict[str, str], rules: FormRules, status: int, param: str | None
) -> None:
    async def unread() -> Any:
        raise AssertionError
        yield b""

    with pytest.raises(ApiError) as refused:
        await read_form(unread(), headers, folder, rules)
    assert (refused.value.status, refused.value.param) == (status, param)


async def test_a_caller_that_leaves_takes_its_file_along(folder: UploadFolder) -> None:
    async def leaves() -> Any:
        yield form_body(files=[LARGEST])[:700]
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await read_form(leaves(), HEADERS, folder, RULES)
    assert is_clean(folder)


async def test_all_files_together_have_a_bound(folder: UploadFolder) -> None:
    kept = [await read(folder, form_body(files=[LARGEST])) for _ in range(10)]
    with pytest.raises(ApiError) as refused:
        await read(folder, form_body(files=[("file", "x", b"1")]))
    assert (refused.value.status, refused.value.retry_after_s) == (503, 1.0)
    for each in kept:
        each.close()
    assert is_clean(folder)


async def test_a_disk_that_fails_is_no_crash(
    folder: UploadFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_upload: Upload, data: bytearray, is_whole: bool) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(Upload, "_write", fail)
    with pytest.raises(ApiError) as refused:
        await read(folder, form_body(files=[LARGEST]))
    assert refused.value.status == 503
    assert is_clean(folder)


async def test_what_an_instant_left_is_removed_at_the_next_start(folder: UploadFolder) -> None:
    (folder._path / "tmp123").write_bytes(b"x")
    folder.clear()
    assert is_clean(folder)


async def test_a_process_that_is_killed_leaves_no_file(folder: UploadFolder) -> None:
    writes = f"""
import asyncio, os, pathlib, signal
from gateway.uploads.folder import UploadFolder
upload = UploadFolder(pathlib.Path({str(folder._path)!r}), 10_000).open("file", 1000)
upload.add(b"x" * 1000)
asyncio.run(upload.write(is_whole=True))
assert upload.read(0, 9) == b"x" * 9
os.kill(os.getpid(), signal.SIGKILL)
"""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", writes)
    assert await process.wait() == -signal.SIGKILL
    assert is_clean(folder)


async def test_a_closed_upload_is_not_read(folder: UploadFolder) -> None:
    taken = await read(folder, form_body(files=[LARGEST]))
    taken.close()
    with pytest.raises(ValueError, match="closed"):
        taken.files["file"][0].read(0, 1)


async def test_the_same_form_has_the_same_identity_whatever_its_boundary(
    folder: UploadFolder,
) -> None:
    body = form_body([("model", "m")], [LARGEST])
    other = body.replace(b"a-boundary", b"another")
    headers = {"content-type": TYPE.replace("a-boundary", "another")}
    one = await read(folder, body)
    two = await read_form(in_pieces(other, 99), headers, folder, RULES)
    three = await read(folder, form_body([("model", "n")], [LARGEST]))
    assert one.identity() == two.identity() != three.identity()
    for each in (one, two, three):
        each.close()
