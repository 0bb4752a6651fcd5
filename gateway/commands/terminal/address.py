"""Where the admin API is, and its key: DATA/ready.json, or a URL and a variable."""

import ipaddress
import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import click

from gateway.commands.terminal.admin_api import AdminApi
from gateway.config_file import PREFIX, SettingsError, find_config, read_file

KEY_VARIABLE = "SLUICE_ADMIN_KEY"
READY = "ready.json"
DATA = ".sluice"


def running(data: Path | None, config: Path | None) -> AdminApi:
    """The Sluice that `sluice up` runs on a data folder. Raises ClickException."""
    folder = data or _folder_of_settings(config)
    path = folder / READY
    try:
        ready = json.loads(path.read_bytes())
        return AdminApi(str(ready["base_url"]), str(ready["admin_key"]), str(path))
    except (FileNotFoundError, NotADirectoryError) as missing:
        words = f"no Sluice runs on {folder}: there is no {path}. Start it with `sluice up`, or"
        raise click.ClickException(f"{words} name a folder with --data.") from missing
    except OSError as refused:
        raise click.ClickException(f"{path}: {refused.strerror}") from refused
    except (ValueError, KeyError, TypeError) as broken:
        raise click.ClickException(f"{path}: not what `sluice up` writes") from broken


def remote(url: str, environment: Mapping[str, str], *, insecure: bool) -> AdminApi:
    """A gateway by its address. Raises UsageError, ClickException without a key."""
    checked = _checked(url, insecure=insecure)
    if not (key := environment.get(KEY_VARIABLE)):
        raise click.ClickException(f"--url needs the admin key in the variable {KEY_VARIABLE}")
    if not (key.isascii() and key.isprintable()):
        raise click.ClickException(f"{KEY_VARIABLE} holds no key: it has letters that no key has")
    return AdminApi(checked, key)


def _checked(url: str, *, insecure: bool) -> str:
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address or parts.query or parts.fragment or parts.username is not None:
        words = f"{url!r} is no address as in https://sluice.example.com"
        raise click.BadParameter(words, param_hint="--url")
    if parts.scheme == "http" and not insecure and not _is_loopback(str(parts.hostname)):
        words = "the key would go over plain http: use https, or say --insecure"
        raise click.ClickException(f"{url}: {words}")
    return url.rstrip("/").removesuffix("/v1").removesuffix("/admin")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _folder_of_settings(config: Path | None) -> Path:
    """As the settings say it, without checking the others."""
    try:
        table = read_file(find_config(config))
    except SettingsError as wrong:
        raise click.ClickException(f"settings: {wrong}") from wrong
    return Path(os.environ.get(f"{PREFIX}DATA") or str(table.get("data", DATA)))
