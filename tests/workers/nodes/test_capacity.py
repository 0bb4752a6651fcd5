"""A trace of capacity is a step function of time that starts again at its end."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.nodes.capacity import BadCapacityFile, CapacityTrace, Metadata, read_capacity

TRACES = st.lists(st.integers(0, 9), min_size=1, max_size=20)


@given(TRACES, st.integers(0, 100), st.sampled_from([1.0, 60.0, 0.5]))
def test_count_is_that_of_its_step_and_comes_again(
    data: list[int], step: int, speed: float
) -> None:
    capacity = CapacityTrace(Metadata(gap_seconds=8.0), tuple(data))
    assert capacity.at((step + 0.5) * 8.0 / speed, speed=speed) == data[step % len(data)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "truncated"),
        ({"data": [1]}, "metadata"),
        ({"metadata": {"gap_seconds": 0}, "data": [1]}, "> 0"),
        ({"metadata": {"gap_seconds": 1}, "data": []}, ">= 1"),
        ({"metadata": {"gap_seconds": 1}, "data": [1, -1]}, ">= 0"),
        ({"metadata": {"gap_seconds": 1}, "data": ["1"]}, "int"),
    ],
)
def test_broken_file_is_refused_in_one_line(tmp_path: Path, content: Any, words: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(BadCapacityFile, match=words) as raised:
        read_capacity(path)
    assert str(raised.value).startswith(f"{path}: ") and "\n" not in str(raised.value)


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCapacityFile, match="No such file"):
        read_capacity(tmp_path / "gone.json")
