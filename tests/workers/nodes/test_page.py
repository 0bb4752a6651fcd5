"""What docs/fleet.md shows is what the settings read."""

import json
import re
from pathlib import Path

from gateway.settings import load_settings
from workers.nodes.capacity import read_capacity

PAGE = Path(__file__).parents[3] / "docs" / "fleet.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}$\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


def test_types_and_traces_of_the_page_are_read(tmp_path: Path) -> None:
    texts = [block for block in blocks("toml") if block.startswith("[[nodes]]")]
    (tmp_path / "sluice.toml").write_text("".join(texts))
    nodes = load_settings(tmp_path / "sluice.toml").nodes
    assert [(node.name, node.market, node.min, node.weights_gb) for node in nodes] == [
        *(("base", "reserved", 1, None), ("spot-b", "spot", 0, None)),
        ("rented", "spot", 0, 80.0),
    ]
    [trace] = [block for block in blocks("json") if "gap_seconds" in block]
    (tmp_path / "trace.json").write_text(trace)
    assert list(read_capacity(tmp_path / "trace.json").data) == json.loads(trace)["data"]
