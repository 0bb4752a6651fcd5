"""How the process of adapters is started: its interpreter, made where it is missing, and a new
environment, in which nothing of ours stands but provider keys, its address and its secret.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from gateway.catalog.external import KEY_PREFIX
from gateway.providers.link import providers_secret
from gateway.settings import ProvidersSettings, Settings

PROJECT_ROOT = Path(__file__).parents[2]
LOCK = PROJECT_ROOT / "requirements" / "providers.lock"
PASSED = frozenset(
    {
        *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR"),
    }
)
"""What any program is told of its machine."""


class NoEnvironment(Exception):
    """What it runs in is not there and cannot be made; the text says why."""


def launch(settings: Settings, environ: Mapping[str, str]) -> NoReturn:
    """Become the process of adapters. Raises NoEnvironment."""
    own = settings.providers
    make_environment(own, environ)
    variables = process_environment(own, settings.worker_secret or "", environ)
    variables["SLUICE_PROVIDERS_KEYS_FOLDER"] = str(settings.provider_keys.absolute())
    os.execve(own.interpreter, [str(own.interpreter), "-m", "providers"], variables)


def process_environment(
    own: ProvidersSettings, worker_secret: str, environ: Mapping[str, str]
) -> dict[str, str]:
    """All of its variables."""
    passed = {
        name: value
        for name, value in environ.items()
        if name in PASSED or name.removeprefix(KEY_PREFIX) not in (name, "")
    }
    return {
        **passed,
        "PYTHONPATH": str(PROJECT_ROOT),
        "PYTHONUNBUFFERED": "1",
        "SLUICE_PROVIDERS_HOST": own.host,
        "SLUICE_PROVIDERS_PORT": str(own.port),
        "SLUICE_PROVIDERS_SECRET": providers_secret(worker_secret),
        "SLUICE_PROVIDERS_CALLS_MAX": str(own.calls_max),
        "SLUICE_PROVIDERS_TIMEOUT_S": str(own.timeout_s),
    }


def make_environment(own: ProvidersSettings, environ: Mapping[str, str]) -> None:
    """As `make providers` does, where it is missing or older than its lock. Another interpreter
    than the usual one is left as it is. Raises NoEnvironment."""
    python = own.interpreter
    if python != ProvidersSettings().interpreter:
        if not python.exists():
            raise NoEnvironment(f"no Python at {python}: see python of [providers]")
        return
    if is_made(python):
        return
    installer = PROJECT_ROOT / "requirements" / "install.sh"
    if not installer.exists():
        raise NoEnvironment(f"no environment at {python}, and no {installer} to make it")
    variables = {**environ, "VENV": str(python.parents[1]), "PYTHON": sys.executable}
    if subprocess.run([installer, "providers"], env=variables).returncode:
        raise NoEnvironment(f"{python.parents[1]} could not be made: see the lines above")


def is_made(python: Path, lock: Path = LOCK) -> bool:
    stamp = python.parents[1] / ".runtime"
    if not python.exists() or not stamp.exists():
        return False
    return not lock.exists() or stamp.stat().st_mtime >= lock.stat().st_mtime
