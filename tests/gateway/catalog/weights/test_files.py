"""What is fit to be served, by its files alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from gateway.catalog.weights.files import UnfitWeights, check_weights, is_served

SMALL = Path(__file__).parents[4] / "models" / "sluice-small"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SMALL, tmp_path / "checkpoint"))


@pytest.mark.parametrize(
    ("name", "served"),
    {
        "config.json": True,
        "model-00001-of-00002.safetensors": True,
        "model.safetensors.index.json": True,
        "1_Pooling/config.json": True,
        "onnx/model.safetensors": False,
        "pytorch_model.bin": False,
        "modeling_tale.py": False,
        "../config.json": False,
        "1_Pooling/../../config.json": False,
    }.items(),
)
def test_list_of_files_names_what_is_data_alone(name: str, served: bool) -> None:
    assert is_served(name) is served


def test_whole_checkpoint_is_fit(folder: Path) -> None:
    check_weights(folder)


def test_pickled_weights_alone_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UnfitWeights, match=r"pickled weights only \(pytorch_model.bin\)"):
        check_weights(folder)


def test_folder_without_weights_is_refused(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(UnfitWeights, match="has no"):
        check_weights(folder)


def test_weights_that_were_cut_are_refused(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(UnfitWeights, match="is not whole"):
        check_weights(folder)


def header(text: bytes) -> bytes:
    return len(text).to_bytes(8, "little") + text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK",
        b"\xff" * 40,
        header(b"[1,2]"),
        header(b"{}"),
        header(b'{"a": {"data_offsets": [0, "x"]}}'),
        header(b'{"a": {"data_offsets": {}}}'),
    ],
)
def test_what_is_no_safetensors_is_refused(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(UnfitWeights, match="is not safetensors"):
        check_weights(folder)


@pytest.mark.parametrize(
    ("shard", "words"),
    [("model-2.safetensors", "not there"), ("../model.safetensors", "no file of this folder")],
)
def test_index_names_files_of_the_folder_that_are_there(
    folder: Path, shard: str, words: str
) -> None:
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model.safetensors", "b": shard}}))
    with pytest.raises(UnfitWeights, match=words):
        check_weights(folder)
