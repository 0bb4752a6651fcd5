"""Checks before the start. Free memory is the machine's, or a container's limit if tighter."""

import os
from pathlib import Path

import psutil
import pytest

from gateway.settings import ModelSettings, PoolSettings, Settings
from gateway.supervisor.checks import (
    check_engine,
    check_memory,
    check_models,
    check_vllm,
    free_memory_bytes,
    memory_needed_mb,
)
from gateway.supervisor.errors import CannotStart
from gateway.supervisor.up import generating_first
from routing.types import Task
from tests.nursery import sluice


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


MODEL = ModelSettings(name="m", context_tokens=8, max_output_tokens=8, size_rank=1, quality=0.5)
EMBEDS = MODEL.model_copy(update={"name": "e", "task": Task.EMBED})
POOLS = (
    PoolSettings(name="warm", model="m", initial_replicas=2, max_replicas=2),
    PoolSettings(name="cold", model="m"),
    PoolSettings(name="embeds", model="e", initial_replicas=1),
)


def settings_of(engine: str, python: Path) -> Settings:
    plain = Settings(engine=engine, models=(MODEL, EMBEDS), pools=POOLS)
    return plain.model_copy(update={"vllm": plain.vllm.model_copy(update={"python": python})})


def test_vllm_without_its_environment_says_how_to_make_it(tmp_path: Path) -> None:
    absent = tmp_path / "python"
    check_vllm(settings_of("continuous", absent))
    with pytest.raises(CannotStart, match=f"none is at {absent}: make it with `make vllm`"):
        check_vllm(settings_of("vllm", absent))


def test_vllm_with_another_ray_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho 3.11.0 2.0.0\n")
    other.chmod(0o755)
    with pytest.raises(CannotStart, match=r"has Python and ray 3\.11\.0 2\.0\.0, this cluster"):
        check_vllm(settings_of("vllm", other))


def test_replicas_on_vllm_need_more_memory_and_those_that_embed_do_not(tmp_path: Path) -> None:
    plain, larger = (
        memory_needed_mb(settings_of(engine, tmp_path)) for engine in ("continuous", "vllm")
    )
    vllm = Settings().vllm
    assert larger - plain == 2 * (vllm.memory_mb + vllm.kv_cache_mb)


def test_up_with_an_engine_that_is_not_installed_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_VLLM__PYTHON", str(tmp_path / "python"))
    arguments = ("up", "--engine", "vllm", "--data", str(tmp_path / "data"))
    ended = sluice(*arguments, env=os.environ)
    assert ended.returncode == 1
    assert "make vllm" in ended.stdout
    assert not (tmp_path / "data").exists()


def test_example_call_chats_with_a_model_that_generates() -> None:
    assert generating_first(["auto", "e", "m"], (MODEL, EMBEDS)) == ["auto", "m", "e"]


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
