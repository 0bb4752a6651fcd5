"""The launcher's manners: it stops when asked, and says in one line why it cannot start."""

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workers.cluster import ROOT, SECRET, TOKEN
from workers.ray.file import read_ray_file
from workers.ray.session import members

pytestmark = pytest.mark.xdist_group("cluster")


@pytest.fixture
def data() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sluice-test-") as folder:
        yield Path(folder)


def launch(data: Path, **env: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "workers.ray.launch"],
        cwd=ROOT,
        env={
            "PATH": "/usr/bin:/bin",
            "SLUICE_DATA": str(data),
            "SLUICE_WORKER_SECRET": SECRET,
            "RAY_AUTH_TOKEN": TOKEN,
        }
        | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_stopped_while_starting_it_leaves_nothing(data: Path) -> None:
    launcher = launch(data)
    while (file := read_ray_file(data / "ray.json")) is None:
        assert launcher.poll() is None
        time.sleep(0.05)
    time.sleep(1.0)
    folder = Path(file.temp_dir).parent
    assert folder.stat().st_mode & 0o777 == 0o700, "Ray lets everybody write to its own folder"
    assert folder.stat().st_uid == os.getuid()
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(timeout=60) == 0
    assert members(file.session) == []
    assert not folder.exists()
    assert not (data / "ray.json").exists()


def test_addresses_are_private_and_hold_no_token(data: Path) -> None:
    launcher = launch(data)
    path = data / "ray.json"
    while not path.exists():
        assert launcher.poll() is None
        time.sleep(0.05)
    assert path.stat().st_mode & 0o777 == 0o600
    assert TOKEN not in path.read_text()
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(timeout=60) == 0


def test_second_launcher_on_the_same_data_is_refused_in_one_line(data: Path) -> None:
    with open(data / "ray.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        out, err = (launcher := launch(data)).communicate(timeout=60)
    assert (launcher.returncode, out) == (1, "")
    assert err.splitlines() == [f"workers: another launcher runs on {data}"]


def test_wrong_setting_is_refused_in_one_line_that_names_it(data: Path) -> None:
    out, err = (launcher := launch(data, SLUICE_RAY__NUM_CPUS="none")).communicate(timeout=60)
    assert (launcher.returncode, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "ray.num_cpus" in err


@pytest.mark.parametrize("secret", ["RAY_AUTH_TOKEN", "SLUICE_WORKER_SECRET"])
def test_nothing_starts_without_secrets(data: Path, secret: str) -> None:
    _, err = (launcher := launch(data, **{secret: ""})).communicate(timeout=60)
    assert launcher.returncode == 1
    assert err.splitlines() == [f"workers: {secret} is not set"]
