from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from billing.limits.types import Booked
from billing.spool import segments
from billing.spool.spool import Spool, SpooledCall, SpoolFull, SpoolInUse, replay
from billing.types import UsageSource
from tests.billing.calls import checkpoint, opened_call, settled_call

GATEWAY = "gw-1"
CALL = opened_call()


async def test_what_is_written_is_replayed(tmp_path: Path) -> None:
    async with Spool(tmp_path, GATEWAY) as spool:
        spool.opened(CALL)
        spool.opened(opened_call("req_2"))
        spool.checkpoint(CALL.rid, checkpoint(1))
        spool.checkpoint(CALL.rid, checkpoint(2))
        spool.closed(settled_call(CALL))
    assert replay(tmp_path, GATEWAY) == [
        SpooledCall(CALL.rid, CALL, checkpoint(2), settled_call(CALL)),
        SpooledCall("req_2", opened_call("req_2")),
    ]


def test_lines_survive_a_killed_process(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path; from billing.spool.spool import Spool;"
        "from tests.billing.calls import opened_call, settled_call;"
        f"s = Spool(Path(sys.argv[1]), '{GATEWAY}'); s.opened(opened_call());"
        "s.closed(settled_call(opened_call())); os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=root, check=False)
    assert replay(tmp_path, GATEWAY) == [SpooledCall(CALL.rid, CALL, None, settled_call(CALL))]


async def test_a_full_segment_is_followed_by_the_next(tmp_path: Path) -> None:
    async with Spool(tmp_path, GATEWAY, segment_bytes=1_500) as spool:
        for number in range(10):
            spool.opened(opened_call(f"req_{number}"))
    found = segments.segments(tmp_path, GATEWAY)
    assert [segment.seq for segment in found] == list(range(1, len(found) + 1))
    assert len(found) > 2
    assert all(segment.path.stat().st_size <= 1_500 for segment in found)
    assert [call.rid for call in replay(tmp_path, GATEWAY)] == [f"req_{n}" for n in range(10)]


async def test_a_restarted_gateway_writes_a_segment_of_its_own(tmp_path: Path) -> None:
    for number in range(2):
        async with Spool(tmp_path, GATEWAY) as spool:
            spool.opened(opened_call(f"req_{number}"))
    assert [segment.seq for segment in segments.segments(tmp_path, GATEWAY)] == [1, 2]
    assert len(replay(tmp_path, GATEWAY)) == 2


async def test_two_processes_cannot_share_a_spool(tmp_path: Path) -> None:
    async with Spool(tmp_path, GATEWAY):
        with pytest.raises(SpoolInUse):
            Spool(tmp_path, GATEWAY)
    Spool(tmp_path, GATEWAY).close()


async def test_a_full_disk_refuses_the_line_and_leaves_no_half_of_it(tmp_path: Path) -> None:
    room = [10_000]

    def write(fd: int, data: bytes) -> int:
        taken = min(room[0], len(data))
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        room[0] -= taken
        return os.write(fd, data[:taken])

    async with Spool(tmp_path, GATEWAY, write=write) as spool:
        written = []
        with pytest.raises(SpoolFull):
            for number in range(1000):
                spool.opened(opened_call(f"req_{number}"))
                written.append(f"req_{number}")
        room[0] = 10_000
        spool.closed(settled_call(opened_call("req_last")))
    assert [call.rid for call in replay(tmp_path, GATEWAY)] == [*written, "req_last"]
    data = segments.segments(tmp_path, GATEWAY)[0].path.read_bytes()
    assert len(data.splitlines()) == len(written) + 1


async def test_how_a_call_ended_while_the_disk_was_full_is_written_once_there_is_room(
    tmp_path: Path,
) -> None:
    """Redis may forget it before the ledger has it; a later call is not admitted before that."""
    is_full = [False]

    def write(fd: int, data: bytes) -> int:
        if is_full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(fd, data)

    async with Spool(tmp_path, GATEWAY, write=write) as spool:
        for number in range(3):
            spool.opened(opened_call(f"req_{number}"))
        is_full[0] = True
        for number in range(2):
            with pytest.raises(SpoolFull):
                spool.closed(settled_call(opened_call(f"req_{number}")))
        with pytest.raises(SpoolFull):
            spool.opened(opened_call("req_new"))
        is_full[0] = False
        async with asyncio.timeout(30):
            while not all(call.closed for call in replay(tmp_path, GATEWAY)[:2]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        is_full[0] = True
        with pytest.raises(SpoolFull):
            spool.closed(settled_call(opened_call("req_2")))
        is_full[0] = False
    found = {call.rid: call.closed is not None for call in replay(tmp_path, GATEWAY)}
    assert found == {"req_0": True, "req_1": True, "req_2": True}, "on the way out, too"


async def test_at_its_bound_the_spool_refuses_new_calls_and_still_closes_open_ones(
    tmp_path: Path,
) -> None:
    async with Spool(tmp_path, GATEWAY, bytes_max=1_000, segment_bytes=600) as spool:
        with pytest.raises(SpoolFull):
            for number in range(10):
                spool.opened(opened_call(f"req_{number}"))
        spool.closed(settled_call(opened_call("req_0")))
    assert replay(tmp_path, GATEWAY)[0].closed


async def test_a_disk_with_too_little_left_refuses_new_calls(tmp_path: Path) -> None:
    async with Spool(tmp_path, GATEWAY, disk_free_min_bytes=1 << 60) as spool:
        with pytest.raises(SpoolFull, match="bytes left"):
            spool.opened(CALL)
        spool.closed(settled_call(CALL))


async def test_room_that_the_ledger_makes_is_noticed_although_nothing_is_written(
    tmp_path: Path,
) -> None:
    """A confirmed segment is kept for people, and costs the bound nothing."""
    async with Spool(tmp_path, GATEWAY, bytes_max=1_000, segment_bytes=600) as spool:
        with pytest.raises(SpoolFull):
            for number in range(10):
                spool.opened(opened_call(f"req_{number}"))
        for segment in segments.sealed(tmp_path, GATEWAY):
            segments.mark_done(segment)
        spool.opened(opened_call("req_later"))
    assert "req_later" in [call.rid for call in replay(tmp_path, GATEWAY)]


async def test_disk_that_was_cleared_is_noticed_although_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Spool(tmp_path, GATEWAY, disk_free_min_bytes=1 << 60) as spool:
        with pytest.raises(SpoolFull, match="bytes left"):
            spool.opened(CALL)
        monkeypatch.setattr(spool, "_disk_free_min_bytes", 0)
        spool.opened(CALL)
    assert [call.rid for call in replay(tmp_path, GATEWAY)] == [CALL.rid]


async def test_written_lines_reach_the_disk_together_within_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fdatasync = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), fdatasync(fd))[1])
    async with Spool(tmp_path, GATEWAY) as spool:
        for number in range(100):
            spool.opened(opened_call(f"req_{number}"))
        for _ in range(100):
            await asyncio.sleep(0.01)
            if synced:
                break
        assert 1 <= len(synced) <= 3


async def test_a_segment_is_confirmed_only_when_the_ledger_has_all_of_it(tmp_path: Path) -> None:
    booked: dict[str, Booked] = {}

    async def known(rids: object) -> dict[str, Booked]:
        return booked

    async with Spool(tmp_path, GATEWAY) as spool:
        spool.opened(CALL)
        spool.closed(settled_call(CALL))
        spool.opened(opened_call("req_2"))
    Spool(tmp_path, GATEWAY).close()
    [segment] = segments.sealed(tmp_path, GATEWAY)
    index = segments.index(segment)
    assert (index.opened, index.closed) == ((CALL.rid, "req_2"), (CALL.rid,))
    assert not await segments.in_ledger(segment, known)
    booked[CALL.rid] = booked["req_2"] = Booked(UsageSource.ESTIMATED, 1)
    assert not await segments.in_ledger(segment, known)  # the exact end of one is missing
    booked[CALL.rid] = Booked(UsageSource.EXACT, 2)
    assert await segments.in_ledger(segment, known)
    assert not segments.remove_done(tmp_path, GATEWAY, before_s=float("inf"))
    segments.mark_done(segment)
    assert segments.sealed(tmp_path, GATEWAY) == []
    assert replay(tmp_path, GATEWAY) == []
    assert not segments.remove_done(tmp_path, GATEWAY, before_s=0.0)
    assert segments.remove_done(tmp_path, GATEWAY, before_s=float("inf")) == [segment]
    assert [each.seq for each in segments.segments(tmp_path, GATEWAY)] == [2]
    assert segments.gateways(tmp_path) == [GATEWAY]
