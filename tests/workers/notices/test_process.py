"""The watcher as its own process: it writes a notice down, and ends with whoever started it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.workers.cluster import PATIENCE_S
from tests.workers.notices.metadata_server import metadata_server
from workers.nodes.folder import Launch, NodesFolder
from workers.notices.order import WatchOrder


def test_watcher_writes_the_notice_of_its_node_and_ends_with_it(tmp_path: Path) -> None:
    folder = NodesFolder(tmp_path)
    folder.launch(Launch("spot-1", "spot", {}, 1))
    ends_s = int(time.time()) + 120
    ends = datetime.fromtimestamp(ends_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with metadata_server() as server:
        server.say(AWS_ACTION=json.dumps({"action": "stop", "time": ends}))
        order = msgspec.json.encode(WatchOrder("spot-1", str(tmp_path), "aws", server.url))
        watcher = subprocess.Popen(
            [sys.executable, "-m", "workers.notices", order.decode()], stdin=subprocess.PIPE
        )
        deadline_s = time.monotonic() + PATIENCE_S
        while not (notices := folder.notices(())):
            assert watcher.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.01)
        assert watcher.stdin is not None
        watcher.stdin.close()
        assert watcher.wait(PATIENCE_S) == 0
    assert (notices["spot-1"].deadline_ms, notices["spot-1"].why) == (
        ends_s * 1000,
        "EC2 announced: stop",
    )
    assert folder.notices({"spot-1"}) == {}
