"""Where a command finds its Sluice, and what it says when there is none or it says no."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from gateway.cli import OVER_ADMIN_API, main
from tests.gateway.commands.sluice import Sluice, ready
from tests.gateway.edge import API_KEY
from tests.stack_process import free_port


async def test_gateway_elsewhere_is_named_by_url_and_its_key_by_a_variable(
    sluice: Sluice, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = json.loads((sluice.data / "ready.json").read_text())["base_url"]
    monkeypatch.setenv("SLUICE_ADMIN_KEY", "admin")
    for written in (url, f"{url}/", f"{url}/v1"):
        assert "org_default" in await sluice("org", "list", "--url", written)
    monkeypatch.setenv("SLUICE_ADMIN_KEY", API_KEY)
    wrong = await sluice.refused("org", "list", "--url", url)
    assert wrong.startswith(f"Error: {url} does not take this admin key: ")
    monkeypatch.setenv("SLUICE_ADMIN_KEY", "naïve\n")
    assert "no key has" in await sluice.refused("org", "list", "--url", url)
    monkeypatch.delenv("SLUICE_ADMIN_KEY")
    wrong = await sluice.refused("org", "list", "--url", url)
    assert wrong == "Error: --url needs the admin key in the variable SLUICE_ADMIN_KEY"


@pytest.mark.parametrize(
    "url",
    ["gateway", "ftp://gateway", "http://", "http://a:b@127.0.0.1", "http://[::1", "http://h:x"],
)
async def test_url_that_is_none_is_wrong_use(tmp_path: Path, url: str) -> None:
    wrong = await Sluice(tmp_path).refused("org", "list", "--url", url, status=2)
    assert f"--url: '{url}' is no address as in https://sluice.example.com" in wrong


async def test_key_goes_to_another_machine_by_https_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_ADMIN_KEY", "admin")
    wrong = await Sluice(tmp_path).refused("org", "list", "--url", "http://sluice.invalid")
    assert wrong.endswith("the key would go over plain http: use https, or say --insecure")
    words = ("org", "list", "--url", "http://sluice.invalid", "--insecure")
    assert "http://sluice.invalid does not answer: " in await Sluice(tmp_path).refused(*words)


async def test_stack_that_does_not_run_is_said_with_what_starts_it(tmp_path: Path) -> None:
    nowhere = await Sluice(tmp_path / "none").refused("org", "list")
    assert nowhere == (
        f"Error: no Sluice runs on {tmp_path}/none: there is no {tmp_path}/none/ready.json. "
        "Start it with `sluice up`, or name a folder with --data."
    )
    killed = ready(tmp_path / "killed", f"http://127.0.0.1:{free_port()}")
    told = await killed.refused("org", "list")
    assert "does not answer: Connection refused." in told
    assert told.endswith(f"{tmp_path}/killed/ready.json names this address.")


async def test_ready_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    sluice = ready(tmp_path / "data", "http://127.0.0.1:1")
    file = sluice.data / "ready.json"
    file.write_text("{")
    assert await sluice.refused("org", "list") == f"Error: {file}: not what `sluice up` writes"
    file.unlink()
    file.mkdir()
    assert await sluice.refused("org", "list") == f"Error: {file}: Is a directory"


async def test_admin_key_that_is_refused_is_said(one: object, sluice: Sluice) -> None:
    ready(sluice.data, json.loads((sluice.data / "ready.json").read_text())["base_url"], "other")
    assert "does not take this admin key: " in await sluice.refused("budget", "list")


@asynccontextmanager
async def answering(reply: bytes) -> AsyncIterator[str]:
    """Some other server: it says the same to everybody."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    "reply, expected",
    [
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n<html>hello\n</html>", "is no Sluice"),
        (b"HTTP/1.1 302 Found\r\nlocation: http://evil/\r\nconnection: close\r\n\r\n", "302"),
        (b"HTTP/1.1 502 Bad\r\nconnection: close\r\n\r\nbad gateway", "502 with bad gateway"),
        (b"SSH-2.0-OpenSSH\r\n", "does not answer: "),
        (b"", "does not answer: "),
    ],
)
async def test_server_that_is_no_sluice_is_said(
    tmp_path: Path, reply: bytes, expected: str
) -> None:
    async with answering(reply) as url:
        assert expected in await ready(tmp_path / "data", url).refused("org", "list")


def test_broken_settings_end_with_one_line(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    for text, words in (("data =", "not valid TOML"), (None, "No such file or directory")):
        config.write_text(text) if text else config.unlink()
        done = CliRunner().invoke(main, ["org", "list", "--config", str(config)])
        assert done.exit_code == 1
        assert done.stderr.startswith(f"Error: settings: {config}: {words}"), done.stderr


def test_folder_is_that_of_the_settings_where_none_is_named(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text(f'data = "{tmp_path}/mine"\n')
    done = CliRunner().invoke(main, ["org", "list", "--config", str(config)])
    assert f"no Sluice runs on {tmp_path}/mine" in done.stderr
    data = {"SLUICE_DATA": f"{tmp_path}/other"}
    done = CliRunner().invoke(main, ["org", "list", "--config", str(config)], env=data)
    assert f"no Sluice runs on {tmp_path}/other" in done.stderr


def commands(group: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(group, click.Group):
        yield path, group
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        if path or name in OVER_ADMIN_API:
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, *path, name)


@pytest.mark.parametrize(
    "path, command", [pytest.param(*c, id=" ".join(c[0])) for c in commands(main)]
)
def test_help_has_an_example_that_the_command_takes(
    path: tuple[str, ...], command: click.Command
) -> None:
    told = CliRunner().invoke(main, [*path, "--help"]).stdout
    examples = [line.split(" > ")[0] for line in told.splitlines() if line.startswith("    sluice")]
    assert examples, told
    for line in examples:
        words = shlex.split(line)
        assert tuple(words[1 : 1 + len(path)]) == path
        command.make_context(path[-1], words[1 + len(path) :])


def test_sluice_starts_without_what_it_does_not_need() -> None:
    """Help, and a command that asks over HTTP, are to come at once."""
    slow = ("pydantic", "sqlalchemy", "fastapi", "redis", "psutil", "asyncio")
    look = f"import sys, gateway.cli; print([m for m in {slow!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, timeout=60, env=os.environ
    )
    assert done.stdout.strip() == "[]", done.stderr
