import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

from tests.workers.engines.conftest import MODEL_PATH
from workers.engines.base import CheckpointUnsupported
from workers.engines.continuous.checkpoint import Checkpoint, kv_shape, open_checkpoint
from workers.engines.continuous.runner import Runner
from workers.engines.continuous.slots import KvRows


def test_a_checkpoint_says_what_the_engine_needs(checkpoint: Checkpoint) -> None:
    config = json.loads((MODEL_PATH / "config.json").read_text())
    assert checkpoint.context_tokens == config["max_position_embeddings"]
    assert checkpoint.vocabulary == config["vocab_size"]
    assert checkpoint.eos_token_ids == {config["eos_token_id"]}
    assert str(next(checkpoint.model.parameters()).dtype) == "torch.float32"


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnsupported, match="not a checkpoint"):
        open_checkpoint(tmp_path)


def test_pickled_weights_are_never_loaded(tmp_path: Path) -> None:
    folder = copy_of_model(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    torch.save(tensors, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(OSError, match="safetensors"):
        open_checkpoint(folder)


def test_weights_that_lack_a_tensor_are_refused_and_never_made_up(tmp_path: Path) -> None:
    folder = copy_of_model(tmp_path)
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointUnsupported, match=r"lack 1 tensors, model.layers.1.mlp.up_proj"):
        open_checkpoint(folder)


def test_end_tokens_may_be_a_list(tmp_path: Path) -> None:
    folder = copy_of_model(tmp_path)
    edit(folder / "generation_config.json", eos_token_id=[2, 5])
    assert open_checkpoint(folder).eos_token_ids == {2, 5}


def test_attention_that_forgets_is_refused(tmp_path: Path) -> None:
    folder = copy_of_model(tmp_path)
    edit(
        folder / "config.json",
        model_type="mistral",
        architectures=["MistralForCausalLM"],
        sliding_window=64,
    )
    with pytest.raises(CheckpointUnsupported, match="sliding"):
        open_checkpoint(folder)


def test_a_model_that_the_rows_do_not_fit_is_found_out(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = KvRows(checkpoint.kv_shape, rows=2, context_tokens=32, blocks=0, block_tokens=16)
    runner = Runner(checkpoint.model, rows)
    runner.prove(range(1, 9))
    layer = runner._cache.layers[0]
    monkeypatch.setattr(layer, "_head_values", torch.zeros_like(layer._head_values))
    with pytest.raises(CheckpointUnsupported, match="differ"):
        runner.prove(range(1, 9))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("qwen3", {"head_dim": 16, "num_key_value_heads": 2}),
        ("mistral", {"sliding_window": None, "num_key_value_heads": 1}),
        ("gpt2", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    ],
)
def test_other_architectures_run_as_they_are(kind: str, fields: dict[str, Any]) -> None:
    sizes = {
        "vocab_size": 64,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    config = AutoConfig.for_model(kind, **(fields if kind == "gpt2" else sizes | fields))
    model = AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
    rows = KvRows(kv_shape(config), rows=2, context_tokens=32, blocks=0, block_tokens=16)
    Runner(model, rows).prove(range(1, 9))


def copy_of_model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(MODEL_PATH, folder)
    return folder


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
