"""`ready.json` is true for as long as it is there."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.supervisor.ready_file import Ready, ReadyFile


def ready() -> Ready:
    url = "http://127.0.0.1:1"
    return Ready(url, f"{url}/console", admin_key="a", api_key="b", models=["one"])


def told(data: Path) -> list[str]:
    models: list[str] = json.loads((data / "ready.json").read_bytes())["models"]
    return models


def test_models_follow_what_is_served(tmp_path: Path) -> None:
    file = ReadyFile(tmp_path, print)
    file.announce(ready())
    file.offer(["one", "two"])
    assert told(tmp_path) == ["one", "two"]
    written = (tmp_path / "ready.json").stat().st_mtime_ns
    file.offer(["one", "two"])
    assert (tmp_path / "ready.json").stat().st_mtime_ns == written
    file.follow({"gateway": 7})
    assert told(tmp_path) == ["one", "two"]


def test_nothing_is_offered_before_all_is_ready_or_after_the_end(tmp_path: Path) -> None:
    file = ReadyFile(tmp_path, print)
    file.offer(["one"])
    assert not (tmp_path / "ready.json").exists()
    file.announce(ready())
    file.withdraw()
    file.offer(["two"])
    assert not (tmp_path / "ready.json").exists()
