"""Checks before the start. Free memory is the machine's, or a container's limit if tighter."""

from pathlib import Path

import psutil
import pytest

from gateway.settings import ModelSettings
from gateway.supervisor.checks import (
    check_engine,
    check_memory,
    check_models,
    free_memory_bytes,
)
from gateway.supervisor.errors import CannotStart


def test_container_limit_counts_without_reclaimable_pages(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("900000\n")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 300000\n")
    assert free_memory_bytes(tmp_path) == 400_000


@pytest.mark.parametrize("limit", ["max\n", None])
def test_without_a_limit_the_machine_counts(tmp_path: Path, limit: str | None) -> None:
    if limit:
        (tmp_path / "memory.max").write_text(limit)
    assert free_memory_bytes(tmp_path) > psutil.virtual_memory().total // 1000


def test_refusal_names_what_is_free_and_what_is_needed() -> None:
    check_memory(3_000_000_000, 3000)
    with pytest.raises(CannotStart, match="2999 MB of memory are free, 3000 MB are needed"):
        check_memory(2_999_999_999, 3000)


def test_unknown_engine_is_refused_with_those_there_are() -> None:
    check_engine("continuous")
    with pytest.raises(CannotStart, match="no engine named warp; there are: continuous"):
        check_engine("warp")


def test_model_without_its_checkpoint_is_named(tmp_path: Path) -> None:
    model = ModelSettings(
        name="m",
        path=str(tmp_path / "m"),
        context_tokens=8,
        max_output_tokens=8,
        size_rank=1,
        quality=0.5,
    )
    with pytest.raises(CannotStart, match=f"model m: no checkpoint folder at {tmp_path}"):
        check_models([model])
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").touch()
    check_models([model, model.model_copy(update={"path": None})])
