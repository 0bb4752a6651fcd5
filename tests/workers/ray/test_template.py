"""Spares of workers: a start is taken by one that is ready, and by Ray itself where none may."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from workers.ray import template_keeper, worker_start
from workers.ray.template import SPARE_TITLE

PATIENCE_S = 60.0
TEMPLATE = """
import sys
from workers.ray import template
template.LIBRARIES, template.RAY = (), ()
template.HELD_MAX_S = float(sys.argv[3])
template.main(sys.argv[1], int(sys.argv[2]))
"""
WORKER = """
import json, os, sys
print("a line of the worker", flush=True)
start = {
    "arguments": sys.argv[1:],
    "folder": os.getcwd(),
    "job": os.environ["RAY_JOB_ID"],
    "note": os.environ["NOTE"],
    "own_group": os.getpgrp() == os.getpid(),
    "is_fork": "workers.ray.template" in sys.modules,
    "knew_ray": "ray" in sys.modules,
}
with open(sys.argv[1] + ".part", "w") as file:
    json.dump(start, file)
os.rename(sys.argv[1] + ".part", sys.argv[1])
"""
STARTING_WORKER = (
    WORKER
    + """
import time
from workers.ray.worker_start import end_start
until_s = time.monotonic() + 60
while not os.path.exists(sys.argv[1] + ".warm") and time.monotonic() < until_s:
    time.sleep(0.01)
end_start()
time.sleep(60)
"""
)


class Node:
    """A template with its spares, and a raylet's way to start a worker."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "worker.py"
        self.script.write_text(WORKER)
        self.template: subprocess.Popen[bytes] | None = None

    def begin(self, count: int, *, held_max_s: float = PATIENCE_S) -> None:
        starts = str(self.folder / "starts")
        command = [sys.executable, "-c", TEMPLATE, starts, str(count), str(held_max_s)]
        self.template = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"OLD": "1"}
        )
        assert self.template.stdout is not None
        assert self.template.stdout.readline() == b"ready template\n"

    def start(self, name: str, job: str = "01", python: str = sys.executable) -> dict[str, Any]:
        """What the worker of one start says of itself."""
        told = self.folder / f"{name}.json"
        variables = {
            worker_start.SOCKET: str(self.folder / "starts"),
            worker_start.INTERPRETER: python,
            worker_start.WORKER: str(self.script),
            "RAY_JOB_ID": job,
            "RAY_RAYLET_PID": "7",
            "NOTE": name,
        }
        with open(self.folder / f"{name}.out", "wb") as out:
            subprocess.run(
                [sys.executable, worker_start.__file__, str(told), "--more"],
                env=os.environ | variables,
                cwd=self.folder,
                stdout=out,
                check=True,
                timeout=PATIENCE_S,
            )
        until(told.exists)
        start: dict[str, Any] = json.loads(told.read_bytes())
        return start

    def tell(self, name: str, word: str) -> None:
        """To a worker that waits for it."""
        (self.folder / f"{name}.json.{word}").touch()

    def forks(self) -> list[psutil.Process]:
        assert self.template is not None
        return psutil.Process(self.template.pid).children()

    def spares(self) -> list[psutil.Process]:
        return [fork for fork in self.forks() if title_of(fork).startswith(SPARE_TITLE)]

    def end(self) -> None:
        if self.template is not None:
            for fork in self.forks() if self.template.poll() is None else ():
                with suppress(psutil.Error):
                    fork.kill()
            self.template.kill()
            self.template.wait(PATIENCE_S)


def title_of(process: psutil.Process) -> str:
    with suppress(psutil.Error):  # it ended meanwhile
        return " ".join(process.cmdline())
    return ""


def until(condition: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.end()


def test_spare_goes_on_as_the_worker_and_another_is_made_behind_it(node: Node) -> None:
    node.begin(1)
    first = node.start("first")
    assert first["is_fork"]
    until(lambda: len(node.spares()) == 1)
    spare = node.spares()[0].pid
    second = node.start("second")
    assert second == first | {
        "arguments": [str(node.folder / "second.json"), "--more"],
        "note": "second",
        "knew_ray": True,
    }
    assert second["folder"] == str(node.folder) and second["own_group"]
    assert (node.folder / "second.out").read_text() == "a line of the worker\n"
    until(lambda: [each.pid for each in node.spares()] not in ([], [spare]))


def test_no_spare_is_made_while_a_start_needs_the_machine(node: Node) -> None:
    node.script.write_text(STARTING_WORKER)
    node.begin(1)
    starts = [node.start(name) for name in ("first", "second")]
    assert [start["is_fork"] for start in starts] == [True, True]
    node.tell("first", "warm")
    third = node.start("third")
    assert not third["knew_ray"] and len(node.forks()) == 3  # the workers, and nobody behind them
    node.tell("second", "warm")
    node.tell("third", "warm")
    until(lambda: len(node.spares()) == 1)


def test_start_that_dies_holds_up_no_spare(node: Node) -> None:
    node.script.write_text(STARTING_WORKER)
    node.begin(1)
    node.start("first")
    [worker] = node.forks()
    worker.kill()
    until(node.spares)


def test_worker_that_is_no_replica_holds_up_spares_for_a_bounded_time(node: Node) -> None:
    node.script.write_text(STARTING_WORKER)
    node.begin(1, held_max_s=0.2)
    node.start("first")
    until(node.spares)


def test_more_starts_than_spares_are_taken_too(node: Node) -> None:
    node.begin(1)
    node.start("first")
    until(node.spares)
    starts = [node.start(f"more-{number}") for number in range(4)]
    assert all(start["is_fork"] for start in starts)


def test_start_of_another_job_is_left_to_ray_and_the_next_one_of_it_is_not(node: Node) -> None:
    node.begin(1)
    node.start("first")
    until(node.spares)
    other = node.start("other", job="02")
    assert (other["is_fork"], other["job"]) == (False, "02")
    until(node.spares)
    assert node.start("next", job="02")["is_fork"]


def test_without_a_template_and_for_another_interpreter_ray_starts_the_worker(node: Node) -> None:
    assert not node.start("no-template")["is_fork"]
    node.begin(1)
    assert not node.start("foreign", python="/another/python")["is_fork"]


def test_killed_spare_is_replaced_and_spares_end_with_their_template(node: Node) -> None:
    node.begin(2)
    node.start("first")
    until(lambda: len(node.spares()) == 2)
    victim = node.spares()[0]
    victim.kill()
    until(lambda: len(node.spares()) == 2 and victim not in node.spares())
    spares = node.spares()
    assert node.template is not None
    node.template.send_signal(signal.SIGKILL)
    node.template.wait(PATIENCE_S)
    assert node.template.stdin is not None
    node.template.stdin.close()
    psutil.wait_procs(spares, timeout=PATIENCE_S)
    assert not any(spare.is_running() for spare in spares)


def test_template_that_died_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_keeper, "PAUSE_S", 0.0)
    for name in (worker_start.SOCKET, worker_start.INTERPRETER, worker_start.WORKER):
        monkeypatch.setenv(name, "")
    me = psutil.Process()
    before = set(me.children())
    keeper = template_keeper.TemplateKeeper(1, str(tmp_path / "starts"))
    try:
        [first] = set(me.children()) - before
        keeper.mend()
        assert set(me.children()) - before == {first}
        first.kill()

        def is_made_again() -> bool:
            keeper.mend()
            return bool(set(me.children()) - before - {first})

        until(is_made_again)
    finally:
        for child in set(me.children()) - before:
            child.kill()
            child.wait(PATIENCE_S)


def test_no_spares_and_no_template_where_a_fork_is_not_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = str(tmp_path / "starts")
    assert template_keeper.template_keeper(0, starts) is None
    monkeypatch.setattr(sys, "platform", "darwin")
    assert template_keeper.template_keeper(1, starts) is None
