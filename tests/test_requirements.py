"""What a stranger's machine installs: pinned by hash, from anywhere, without CUDA or a compiler."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "requirements"
INSTALL = FOLDER / "install.sh"
HASH = r"    --hash=sha256:[0-9a-f]{64}( \\)?$"
PIN = r"[a-z0-9._-]+(\[[a-z]+\])?==\S+ .*\\$"


@pytest.mark.parametrize("lock", sorted(FOLDER.rglob("*.lock")), ids=lambda path: path.name)
def test_lock_pins_by_hash_and_names_no_index_and_no_path(lock: Path) -> None:
    lines = [line for line in lock.read_text().splitlines() if line and line[0] != "#"]
    for line in lines:
        assert re.match(r"    --hash=sha256:[0-9a-f]{64}( \\)?$|[a-z0-9._-]+==\S+ .*\\$", line), (
            line
        )
    named = [line for line in lines if not line.startswith(" ")]
    assert named


@pytest.mark.parametrize("lock", ["runtime.lock", "test.lock", "torch-cpu.lock"])
def test_machine_without_a_gpu_fetches_nothing_of_cuda(lock: str) -> None:
    names = re.findall(r"^([a-z0-9._-]+)==", (FOLDER / lock).read_text(), re.MULTILINE)
    assert not [name for name in names if re.match(r"nvidia|cuda|triton", name)]


@pytest.mark.parametrize("source", sorted(FOLDER.rglob("*.in")), ids=lambda path: path.name)
def test_every_dependency_says_why_and_is_pinned(source: Path) -> None:
    pinned = "".join(lock.read_text() for lock in FOLDER.rglob("*.lock"))
    for line in source.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition("#")
            assert len(reason.split()) >= 3, line
            bare = re.split(r"[\[=<>; ]", name)[0]
            assert re.search(rf"^{re.escape(bare)}==", pinned, re.MULTILINE), bare


def test_wrong_python_is_one_line(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    ended = _install("runtime", VENV=str(tmp_path / "venv"), PYTHON=str(old))
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"sluice: PYTHON={old} is not a Python 3.11")
    assert len(ended.stderr.splitlines()) == 1


def test_machine_without_a_python_for_the_validator_of_focus_is_told_in_one_line(
    tmp_path: Path,
) -> None:
    ended = _install("focus", VENV=str(tmp_path / "venv"), FOCUS_PYTHON="/nowhere/python3.12")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "it wants a Python 3.12" in ended.stdout and len(ended.stdout.splitlines()) == 1
    assert not (tmp_path / "venv").exists()


def test_python_without_venv_names_the_package_to_install(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1;; esac\nexit 0\n')
    bare.chmod(0o755)
    ended = _install("runtime", VENV=str(tmp_path / "venv"), PYTHON=str(bare))
    assert ended.returncode == 1
    assert "apt-get install python3-venv" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


SLOW, QUICK, QUICK_WITHOUT_VENV = "50", "40", "10"


@pytest.mark.parametrize(
    ("paces", "chosen"),
    [
        ([SLOW, QUICK], 1),
        ([QUICK, SLOW], 0),
        (["41", QUICK], 0),
        ([SLOW, QUICK_WITHOUT_VENV], 0),
        ([QUICK_WITHOUT_VENV, SLOW], 1),
    ],
    ids=["later", "first", "hardly_slower", "no_venv", "first_has_no_venv"],
)
def test_fastest_of_the_interpreters_of_a_version_is_taken(
    tmp_path: Path, paces: list[str], chosen: int
) -> None:
    """Stand-ins that say how fast they are, in us, and end where an environment is to be made."""
    folders = [tmp_path / str(number) for number in range(len(paces))]
    for folder, pace_us in zip(folders, paces, strict=True):
        folder.mkdir()
        no_venv = "exit 1" if pace_us == QUICK_WITHOUT_VENV else "exit 0"
        asked = (
            f'case "$2" in *process_time*) echo {pace_us};; *ensurepip*) {no_venv};; venv) exit 1;;'
        )
        _program(folder / "python3.11", f'{asked} esac; [ "$1" != --version ] || echo Python 3.11')
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    ended = _install("runtime", VENV=str(tmp_path / "venv"), PATH=path, PYTHON="")
    assert ended.returncode == 1
    assert f"with Python 3.11, {folders[chosen]}/python3.11\n" in ended.stdout


TOOLS = ("bash", "dirname", "sleep", "grep", "touch", "id", "cut", "tail")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A folder of programs for a PATH: what the script itself needs, Node, no browser, no
    apt-get."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for tool in TOOLS:
        (programs / tool).symlink_to(f"/usr/bin/{tool}" if tool != "bash" else "/bin/bash")
    _program(tmp_path / "venv" / "bin" / "python", "exit 0")
    _program(programs / "node", "echo v20.0.0")
    _program(programs / "npm", "exit 0")
    return programs


def test_machine_without_a_browser_is_told_in_one_line_how_to_get_one(bare: Path) -> None:
    ended = _install("test", PATH=str(bare), VENV=str(bare.parent / "venv"), CHROMIUM="")
    assert ended.returncode == 1
    assert "apt-get install chromium" in ended.stderr and "CHROMIUM=/path" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    assert not (bare.parent / "venv" / ".test").exists()


def test_root_of_a_debian_without_a_browser_gets_one(bare: Path) -> None:
    (bare / "id").unlink()
    _program(bare / "id", "echo 0")
    _program(bare / "apt-get", f'[ "$1" = update ] || ln -s /bin/true {bare}/chromium')
    (bare / "ln").symlink_to("/usr/bin/ln")
    ended = _install("test", PATH=str(bare), VENV=str(bare.parent / "venv"), CHROMIUM="")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "installing Chromium" in ended.stdout
    assert (bare.parent / "venv" / ".test").exists()


def test_browser_that_is_there_or_named_is_taken(bare: Path) -> None:
    venv = str(bare.parent / "venv")
    named = _install("test", PATH=str(bare), VENV=venv, CHROMIUM="/bin/true")
    assert (named.returncode, "installing Chromium" in named.stdout) == (0, False)
    wrong = _install("test", PATH=str(bare), VENV=venv, CHROMIUM="/nowhere/chromium")
    assert (wrong.returncode, wrong.stderr) == (
        1,
        "sluice: CHROMIUM=/nowhere/chromium is no program\n",
    )
    _program(bare / "google-chrome", "exit 0")
    assert _install("test", PATH=str(bare), VENV=venv, CHROMIUM="").returncode == 0


@pytest.mark.parametrize("node", [None, "echo v18.19.0"])
def test_machine_without_node_is_told_in_one_line(bare: Path, node: str | None) -> None:
    (bare / "node").unlink()
    if node:
        _program(bare / "node", node)
    venv = str(bare.parent / "venv")
    ended = _install("test", PATH=str(bare), VENV=venv, CHROMIUM="/bin/true")
    assert ended.returncode == 1
    assert "Node 20 or later" in ended.stderr and len(ended.stderr.splitlines()) == 1
    assert not (bare.parent / "venv" / ".test").exists()


def _program(path: Path, script: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def _install(what: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(INSTALL), what], env={**os.environ, **env}, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("folder", ["node", "agents"])
def test_clients_for_node_are_pinned_by_hash_and_by_no_host(folder: str) -> None:
    clients = FOLDER.parent / "tests" / "clients" / folder
    wanted = json.loads((clients / "package.json").read_text())["dependencies"]
    assert all(re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", version) for version in wanted.values())
    locked = json.loads((clients / "package-lock.json").read_text())["packages"]
    packages = {name: lock for name, lock in locked.items() if name}
    assert {f"node_modules/{name}" for name in wanted} <= packages.keys()
    for name, lock in packages.items():
        assert lock["integrity"].startswith("sha512-"), name
        assert "resolved" not in lock, name


def test_client_that_is_not_there_is_one_line() -> None:
    ended = _install_client("nobody")
    assert (ended.returncode, len(ended.stderr.splitlines())) == (1, 1)
    assert "requirements/clients/nobody.lock is not there" in ended.stderr


def _install_client(name: str) -> subprocess.CompletedProcess[str]:
    command = [str(INSTALL), "client", name]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)
