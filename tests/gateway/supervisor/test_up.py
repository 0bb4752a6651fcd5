"""`sluice up` as its user meets it, with real processes in place of the real parts."""

import json
import os
import resource
import signal
import socket
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.supervisor.memory import Excess, excess
from tests.gateway.supervisor.running import family, free_port, running_up, wait_for


def test_ready_file_names_every_part_and_is_private(tmp_path: Path) -> None:
    with running_up(tmp_path / "data") as up:
        ready = up.ready()
        assert set(ready) == {
            "base_url", "console_url", "admin_key", "api_key", "models", "pids",
        }  # fmt: skip
        assert set(ready["pids"]) == {"first", "second"}
        assert all(psutil.pid_exists(pid) for pid in ready["pids"].values())
        assert (tmp_path / "data" / "ready.json").stat().st_mode & 0o777 == 0o600


def test_stopping_leaves_no_process_and_exits_zero(tmp_path: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with running_up(tmp_path) as up:
            up.ready()
            assert len(family(tmp_path)) == 5  # up, two parts, and a child of each
            up.signal(number)
            status, output = up.end()
            assert status == 0, output
            assert family(tmp_path) == []
            assert not (tmp_path / "ready.json").exists()
            assert output.index("second: stopped") < output.index("first: stopped")


def test_part_that_ignores_sigterm_is_killed_in_time(tmp_path: Path) -> None:
    with running_up(tmp_path, FAKE_BEHAVIOUR="stubborn") as up:
        up.ready()
        up.signal(signal.SIGTERM)
        assert up.end()[0] == 0
        assert family(tmp_path) == []


def test_dead_part_is_started_again_and_ready_file_stays_true(tmp_path: Path) -> None:
    with running_up(tmp_path) as up:
        before = up.ready()["pids"]
        os.kill(before["second"], signal.SIGKILL)

        after = wait_for(lambda: _other(up.ready()["pids"], before))
        assert after["first"] == before["first"]
        assert psutil.Process(after["second"]).is_running()
        wait_for(lambda: len(family(tmp_path)) == 5 or None)  # its child went with it


def test_part_that_worked_is_started_again_at_once(tmp_path: Path) -> None:
    """Again and again; where it had not worked its pause would be an hour."""
    pauses = {"RESTART_BACKOFF_S": "3600", "RESTART_BACKOFF_MAX_S": "3600", "STEADY_AFTER_S": "0.1"}
    with running_up(tmp_path, **{f"SLUICE_SUPERVISOR__{k}": v for k, v in pauses.items()}) as up:
        began_s = time.monotonic()
        before = up.ready()["pids"]
        took_s = time.monotonic() - began_s  # of all parts
        for _ in range(3):
            time.sleep(2 * took_s + 1.0)
            os.kill(before["second"], signal.SIGKILL)
            before = wait_for(lambda known=before: _other(up.ready()["pids"], known))
        up.signal(signal.SIGTERM)
        _, output = up.end()
    assert output.count("starting again at once") == 3


def test_next_up_ends_what_a_killed_one_left(tmp_path: Path) -> None:
    with running_up(tmp_path) as killed:
        left = killed.ready()["pids"]
        killed.signal(signal.SIGKILL)
        killed.end()
        assert len(family(tmp_path)) == 4
        os.kill(left["first"], signal.SIGKILL)  # its child lives on, and is found all the same
        with running_up(tmp_path) as following:
            pids = wait_for(lambda: _other(following.ready()["pids"], left))
            assert not set(pids.values()) & set(left.values())
            assert len(family(tmp_path)) == 5
            following.signal(signal.SIGTERM)
            status, output = following.end()
            assert status == 0
            assert "second: ended what an earlier run left" in output


def test_recorded_pid_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    stranger = psutil.Process()
    parts = {"first": {"sid": stranger.pid, "started_s": stranger.create_time() - 3600}}
    (tmp_path / "parts.json").write_text(json.dumps(parts))
    with running_up(tmp_path) as up:
        up.ready()
    assert stranger.is_running()


def test_second_up_on_the_same_data_refuses(tmp_path: Path) -> None:
    with running_up(tmp_path) as first:
        pids = first.ready()["pids"]
        with running_up(tmp_path) as second:
            status, output = second.end()
            assert status == 1
            assert f"(pid {first.process.pid})" in _only_line(output)
            assert first.ready()["pids"] == pids


def test_taken_port_refuses(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        with running_up(tmp_path, SLUICE_GATEWAY__PORT=port) as up:
            status, output = up.end()
            assert status == 1
            assert f"127.0.0.1:{port}" in _only_line(output)


def test_too_little_memory_refuses(tmp_path: Path) -> None:
    with running_up(tmp_path, SLUICE_SUPERVISOR__MEMORY_MIN_MB="999999999") as up:
        status, output = up.end()
        assert status == 1
        assert "999999999 MB are needed" in _only_line(output)


def test_broken_settings_refuse_with_file_and_key(tmp_path: Path) -> None:
    config = tmp_path / "mine.toml"
    config.write_text("[gateway]\nprot = 8080\n")
    with running_up(tmp_path / "data", SLUICE_CONFIG=str(config)) as up:
        status, output = up.end()
        assert status == 1
        assert _only_line(output) == f"sluice: cannot start: {config}: unknown key gateway.prot"


def test_part_that_never_starts_ends_up_with_its_last_words(tmp_path: Path) -> None:
    with running_up(tmp_path, FAKE_BEHAVIOUR="broken") as up:
        status, output = up.end()
        assert status == 1
        last = output.strip().splitlines()[-1]
        assert "second does not start: exit status 1: fake: no such thing" in last
        assert family(tmp_path) == []


def test_port_check_passes_for_a_free_port(tmp_path: Path) -> None:
    with running_up(tmp_path, SLUICE_GATEWAY__PORT=str(free_port())) as up:
        up.ready()


def _other(now: dict[str, int], before: dict[str, int]) -> dict[str, int] | None:
    """The pids once every part of before runs, the second one anew."""
    return now if set(now) == set(before) and now["second"] != before["second"] else None


def _only_line(output: str) -> str:
    lines = output.strip().splitlines()
    assert len(lines) == 1, output
    return lines[0]


def test_full_disk_ends_nothing_and_what_it_did_not_take_is_written_later(tmp_path: Path) -> None:
    """A part that died then took everything with it, for good."""
    with running_up(tmp_path) as up:
        before = up.ready()["pids"]
        limits = resource.prlimit(up.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(up.process.pid, resource.RLIMIT_FSIZE, (0, limits[1]))
        os.kill(before["second"], signal.SIGKILL)
        wait_for(lambda: None if (tmp_path / "ready.json").exists() else True)
        assert up.process.poll() is None
        assert psutil.Process(before["first"]).is_running()
        resource.prlimit(up.process.pid, resource.RLIMIT_FSIZE, limits)
        after = wait_for(lambda: _other(_pids(tmp_path), before))
        assert after["first"] == before["first"]
        wait_for(lambda: _recorded(tmp_path) == set(after.values()) or None)
        up.signal(signal.SIGTERM)
        status, output = up.end()
        assert status == 0
        assert output.count("written when there is room") >= 2
        assert "ready.json: written" in output
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
        assert not (tmp_path / "parts.json").exists()


def _pids(data: Path) -> dict[str, int]:
    file = data / "ready.json"
    return json.loads(file.read_text())["pids"] if file.exists() else {}


def _recorded(data: Path) -> set[int]:
    return {part["sid"] for part in json.loads((data / "parts.json").read_text()).values()}


def test_part_that_is_wanted_later_starts_then_and_is_kept_running(tmp_path: Path) -> None:
    wanted = tmp_path / "wanted"
    with running_up(tmp_path / "data", FAKE_WANTED=str(wanted)) as up:
        assert set(up.ready()["pids"]) == {"first", "second"}
        wanted.touch()
        pid = wait_for(lambda: up.ready()["pids"].get("third"))
        os.kill(pid, signal.SIGKILL)
        again = wait_for(lambda: ((p := up.ready()["pids"].get("third")) != pid and p) or None)
        assert psutil.Process(again).is_running()
        up.signal(signal.SIGTERM)
        assert up.end()[0] == 0


def test_part_that_is_wanted_later_and_never_starts_ends_nothing_else(tmp_path: Path) -> None:
    wanted, attempts = tmp_path / "wanted", {"SLUICE_SUPERVISOR__START_ATTEMPTS": "2"}
    wanted.touch()
    with running_up(
        tmp_path / "data", FAKE_WANTED=str(wanted), FAKE_THIRD="broken", **attempts
    ) as up:
        before = up.ready()["pids"]
        log = tmp_path / "data" / "logs" / "third.log"
        wait_for(lambda: (log.exists() and log.read_text().count("no such thing") > 2) or None)
        assert up.process.poll() is None
        pids = up.ready()["pids"]
        assert (pids["first"], pids["second"]) == (before["first"], before["second"])


@pytest.mark.parametrize("behaviour", ["leaking", "stubborn leaking"])
def test_part_that_leaks_is_started_again_and_no_other_part_is(
    tmp_path: Path, behaviour: str
) -> None:
    with running_up(tmp_path, FAKE_BEHAVIOUR=behaviour) as up:
        before = up.ready()["pids"]
        after = wait_for(lambda: _other(up.ready()["pids"], before))
        assert after["first"] == before["first"]
        up.signal(signal.SIGTERM)
        status, output = up.end()
    assert status == 0
    assert "second: ended (it took " in output and "MB of memory, and may have 64)" in output


@given(st.integers(0, 1 << 40), st.integers(1, 1 << 40))
def test_more_memory_is_never_less_of_an_excess(used: int, most: int) -> None:
    order = [Excess.NONE, Excess.TO_END, Excess.AT_ONCE]
    assert (excess(used, most) is Excess.NONE) == (used <= most)
    assert order.index(excess(used, most)) <= order.index(excess(used + most // 4, most))
