"""What is missing on a cluster is said in one clear line each, and nothing is half joined."""

import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest

from tests.workers.existing.fake_dashboard import FIT, TOKEN, fake_dashboard
from workers.existing.facts import ClusterFacts, NodeFacts, ServeFacts
from workers.existing.fitness import misfits, notices
from workers.existing.join import join, pauses
from workers.ray.file import RayFile
from workers.settings import RaySettings, WorkersSettings

NODE = FIT.nodes[0]
BARE = replace(NODE, missing=("torch", "transformers"))


class Waits(threading.Event):
    """Nobody waits. Whoever has joined is stopped after so many looks at the cluster."""

    def __init__(self, folder: Path, looks: int = 1) -> None:
        super().__init__()
        self._file = folder / "ray.json"
        self._looks = looks

    def wait(self, timeout: float | None = None) -> bool:
        if self._file.exists():
            self._looks -= 1
            self.note(msgspec.json.decode(self._file.read_bytes(), type=RayFile))
        if self._looks <= 0:
            self.set()
        return self.is_set()

    def note(self, file: RayFile) -> None:
        """What is said of the cluster."""


def settings_of(folder: Path, address: str, token: str = TOKEN) -> WorkersSettings:
    return WorkersSettings(
        data=folder,
        ray_auth_token=token,
        worker_secret="s",
        ray=RaySettings(address=address, join_wait_s=4.0),
    )


def said(
    capsys: pytest.CaptureFixture[str], folder: Path, address: str, token: str = TOKEN
) -> list[str]:
    """The lines of one that cannot join."""
    assert join(settings_of(folder, address, token), Waits(folder), alone=False) == 1
    assert not (folder / "ray.json").exists()
    lines = capsys.readouterr().err.splitlines()
    return [line.removeprefix(f"workers: cannot join {address}: ") for line in lines]


Capsys = pytest.CaptureFixture[str]


@pytest.mark.parametrize("token", ["", "wrong"])
def test_wrong_token(capsys: Capsys, tmp_path: Path, token: str) -> None:
    with fake_dashboard() as dashboard:
        (line,) = said(capsys, tmp_path, dashboard.address, token)
    assert line == (
        "the cluster refuses the token: set RAY_AUTH_TOKEN to the one that its nodes"
        " were started with"
    )


@pytest.mark.parametrize("other", ["2.44.1", "2.61.0", "3.0.0"])
def test_other_release_of_ray_is_sent_nothing(capsys: Capsys, tmp_path: Path, other: str) -> None:
    with fake_dashboard(ray=other) as dashboard:
        (line,) = said(capsys, tmp_path, dashboard.address)
        assert dashboard.calls == [("GET", "/api/version")]
    assert line.startswith(f"Ray {other} runs there, and this Sluice needs 2.60.x: start its nodes")


def test_another_http_server(capsys: Capsys, tmp_path: Path) -> None:
    with fake_dashboard() as dashboard:
        del dashboard.answers["/api/version"]
        (line,) = said(capsys, tmp_path, dashboard.address)
    assert line == "no dashboard of Ray listens there: GET /api/version answered 404"


def test_a_port_of_something_else(capsys: Capsys, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=_answer_strangely, args=(listener,), daemon=True)
        answering.start()
        (line,) = said(capsys, tmp_path, f"http://127.0.0.1:{listener.getsockname()[1]}")
    assert line == "no dashboard of Ray listens there: BadStatusLine"


def _answer_strangely(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"-ERR unknown command 'GET'\r\n")


def test_unreachable_is_tried_again_with_longer_pauses(capsys: Capsys, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    first, last = said(capsys, tmp_path, address)
    assert first == "workers: [Errno 111] Connection refused; trying again for 4 s"
    assert last == "[Errno 111] Connection refused"
    assert list(pauses(4.0)) == [0.5, 1.0, 2.0, 0.5]


@pytest.mark.parametrize(
    ("serve", "line"),
    [
        (
            ServeFacts(),
            "direct ingress of Ray Serve is off there: start its nodes with"
            " RAY_SERVE_ENABLE_DIRECT_INGRESS=1",
        ),
        (
            ServeFacts(runs=True),
            "direct ingress of Ray Serve is off there: start its nodes with"
            " RAY_SERVE_ENABLE_DIRECT_INGRESS=1, and Serve again (`serve shutdown`)",
        ),
        (
            ServeFacts(direct_ingress=True, haproxy=True),
            "Ray Serve leads every call there through HAProxy: start its nodes without"
            " RAY_SERVE_ENABLE_HA_PROXY",
        ),
        (
            ServeFacts(direct_ingress=True, runs=True, proxy_location="Disabled"),
            "Ray Serve was started with proxy_location Disabled there, and gives replicas no HTTP"
            " port: start it with HeadOnly or EveryNode",
        ),
        (
            ServeFacts(is_there=False),
            "Ray Serve is not installed there: start its nodes with ray[serve]==2.60.0",
        ),
    ],
)
def test_serve_that_cannot_be_used(
    capsys: Capsys, tmp_path: Path, serve: ServeFacts, line: str
) -> None:
    with fake_dashboard(replace(FIT, serve=serve)) as dashboard:
        assert said(capsys, tmp_path, dashboard.address) == [line]
        assert ("PUT", "/api/serve/applications/") not in dashboard.calls


def test_everything_that_is_missing_is_said_at_once(capsys: Capsys, tmp_path: Path) -> None:
    old = replace(BARE, python="3.10.4")
    with fake_dashboard(ClusterFacts(ServeFacts(), (old,))) as dashboard:
        lines = said(capsys, tmp_path, dashboard.address)
    assert lines[1:] == [
        "Python 3.10.4 runs there, and Sluice needs 3.11 or newer",
        "its nodes lack Python packages: install torch, transformers there, or name them in"
        " packages of [ray]",
    ]


def test_a_job_that_fails_says_why(capsys: Capsys, tmp_path: Path) -> None:
    with fake_dashboard() as dashboard:
        dashboard.answers["/api/jobs/job_1"] = {"status": "FAILED", "message": "exit code 1"}
        dashboard.answers["/api/jobs/job_1/logs"] = {"logs": "Traceback\nImportError: no ray\n"}
        (line,) = said(capsys, tmp_path, dashboard.address)
    assert line == "a job on the cluster failed: ImportError: no ray"


def test_a_fit_cluster_is_joined_and_left(capsys: Capsys, tmp_path: Path) -> None:
    with fake_dashboard() as dashboard:
        settings = settings_of(tmp_path, dashboard.address)
        assert join(settings, Waits(tmp_path), alone=False) == 0
        assert ("PUT", "/api/serve/applications/") not in dashboard.calls
    out, err = capsys.readouterr()
    assert out == f"ready workers dashboard={dashboard.address}\n"
    assert err == ""
    assert not settings.ray_file.exists()


def test_a_cluster_that_was_started_anew_is_checked_and_joined_anew(tmp_path: Path) -> None:
    class Noted(Waits):
        lives: ClassVar[list[str]] = []

        def note(self, file: RayFile) -> None:
            if file.joined not in self.lives:
                self.lives.append(file.joined)
            dashboard.answers["/api/version"]["session_name"] = "session_2"

    with fake_dashboard() as dashboard:
        settings = settings_of(tmp_path, dashboard.address)
        assert join(settings, Noted(tmp_path, looks=20), alone=False) == 0
    assert Noted.lives == ["session_1", "session_2"]


def test_nothing_is_left_where_the_writer_does_not_start(capsys: Capsys, tmp_path: Path) -> None:
    with fake_dashboard() as dashboard:
        dashboard.writer = {"status": "FAILED", "logs": "Traceback\nno port is free\n"}
        (line,) = said(capsys, tmp_path, dashboard.address)
    assert line == "a job on the cluster failed: no port is free"


def test_a_cluster_without_tokens_is_joined_with_a_notice(capsys: Capsys, tmp_path: Path) -> None:
    with fake_dashboard(token=None) as dashboard:
        assert join(settings_of(tmp_path, dashboard.address), Waits(tmp_path), alone=False) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("workers: notice: the cluster asks for no token")


def test_nodes_of_others_need_not_fit_where_one_does() -> None:
    head = NodeFacts("10.0.0.1", "3.11.2", "2.60.0", has_cpus=False, missing=("torch",))
    facts = replace(FIT, nodes=(NODE, replace(BARE, ip="10.0.0.3"), head))
    assert not list(misfits(facts, "2.60.0"))
    assert list(notices(facts, has_tokens=True)) == [
        "no replica can start on node 10.0.0.3, which lacks torch, transformers"
    ]


@pytest.mark.parametrize("address", ["ray://10.0.0.1:10001", "10.0.0.1:6379", "auto"])
def test_an_address_of_another_kind(address: str) -> None:
    with pytest.raises(ValueError, match="http://HEAD:8265"):
        RaySettings(address=address)
