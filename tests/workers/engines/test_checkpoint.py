import json
import shutil
from pathlib import Path

import pytest

from tests.workers.engines.conftest import MODEL_PATH
from workers.engines.base import CheckpointUnsupported
from workers.engines.continuous.checkpoint import Checkpoint, open_checkpoint
from workers.engines.continuous.runner import Runner
from workers.engines.continuous.slots import KvRows, KvShape


def test_a_checkpoint_says_what_the_engine_needs(checkpoint: Checkpoint) -> None:
    config = json.loads((MODEL_PATH / "config.json").read_text())
    assert checkpoint.context_tokens == config["max_position_embeddings"]
    assert checkpoint.vocabulary == config["vocab_size"]
    assert checkpoint.eos_token_ids == {config["eos_token_id"]}
    assert str(next(checkpoint.model.parameters()).dtype) == "torch.float32"


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnsupported, match="not a checkpoint"):
        open_checkpoint(tmp_path)


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


def test_a_model_that_the_rows_do_not_fit_is_found_out(checkpoint: Checkpoint) -> None:
    shape = checkpoint.kv_shape
    rows = KvRows(shape, rows=2, context_tokens=32, blocks=0, block_tokens=16)
    Runner(checkpoint.model, rows).prove(range(1, 9))
    forgetful = KvRows(shape, rows=2, context_tokens=32, blocks=0, block_tokens=16)
    runner = Runner(checkpoint.model, forgetful)
    runner._cache.layers[0].values = runner._cache.layers[0]._head_values  # the row it reads
    runner._cache.layers[0]._head_values = runner._cache.layers[0].values.clone()  # is not written
    with pytest.raises(CheckpointUnsupported, match="differ"):
        runner.prove(range(1, 9))
    assert isinstance(shape, KvShape)


def copy_of_model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    shutil.copytree(MODEL_PATH, folder)
    return folder


def edit(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
