import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    RobertaConfig,
    RobertaModel,
)

from tests.workers.engines.embedding.conftest import MINILM_PATH
from workers.engines.base import CheckpointUnsupported
from workers.engines.embedding.checkpoint import EmbeddingCheckpoint, open_checkpoint
from workers.engines.embedding.encoder import Encoder

SIZES: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "max_position_embeddings": 40,
}
Save = Callable[..., Path]


@pytest.fixture
def saved(tmp_path: Path) -> Save:
    """A tiny encoder in a folder, with further files by name."""

    def save(model: Any = None, **files: object) -> Path:
        (model or BertModel(BertConfig(**SIZES))).save_pretrained(tmp_path)
        for name, content in files.items():
            file = tmp_path / f"{name.replace('__', '/')}.json"
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps(content))
        return tmp_path

    return save


def test_a_checkpoint_says_what_the_engine_needs(minilm: EmbeddingCheckpoint) -> None:
    bound = json.loads((MINILM_PATH / "sentence_bert_config.json").read_text())["max_seq_length"]
    assert minilm.context_tokens == bound == 256
    assert (minilm.dimensions, minilm.vocabulary) == (384, 30522)
    assert str(next(minilm.model.parameters()).dtype) == "torch.float32"


def test_a_bare_encoder_is_bound_by_its_positions(saved: Save) -> None:
    checkpoint = open_checkpoint(saved())
    assert (checkpoint.context_tokens, checkpoint.dimensions) == (40, 16)
    Encoder(checkpoint).prove(range(1, 9))


def test_positions_that_begin_behind_the_paddings_are_no_context(saved: Save) -> None:
    checkpoint = open_checkpoint(saved(RobertaModel(RobertaConfig(**SIZES, pad_token_id=1))))
    assert checkpoint.context_tokens == 38
    ids = [token % 32 for token in range(5, 43)]
    assert Encoder(checkpoint).vectors([ids]).shape == (1, 16)


@pytest.mark.parametrize(("declared", "bound"), [(9, 9), (4000, 40), (None, 40)])
def test_the_smaller_bound_counts(saved: Save, declared: int | None, bound: int) -> None:
    path = saved(sentence_bert_config={"max_seq_length": declared})
    assert open_checkpoint(path).context_tokens == bound


@pytest.mark.parametrize(
    "files",
    [
        {"modules": [{"type": "sentence_transformers.models.Dense", "path": "2_Dense"}]},
        {
            "modules": [{"type": "x.Pooling", "path": "1_Pooling"}],
            "1_Pooling__config": {"pooling_mode_cls_token": True},
        },
        {"1_Pooling__config": {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}},
        {"modules": [{"type": "x.Pooling", "path": "1_Pooling"}]},
    ],
)
def test_what_would_be_computed_wrongly_is_refused(saved: Save, files: dict[str, object]) -> None:
    with pytest.raises(CheckpointUnsupported):
        open_checkpoint(saved(**files))


def test_a_decoder_is_refused(saved: Save) -> None:
    with pytest.raises(CheckpointUnsupported, match="not an encoder"):
        open_checkpoint(saved(LlamaForCausalLM(LlamaConfig(**SIZES))))


@pytest.mark.parametrize("name", ["encoder.layer.0.attention.self.key.weight", "pooler"])
def test_weights_that_lack_a_tensor_are_refused_unless_it_is_never_used(
    saved: Save, name: str
) -> None:
    file = saved() / "model.safetensors"
    kept = {key: tensor for key, tensor in load_file(file).items() if not key.startswith(name)}
    save_file(kept, file, metadata={"format": "pt"})
    if name == "pooler":
        assert open_checkpoint(file.parent).dimensions == 16
    else:
        with pytest.raises(CheckpointUnsupported, match=r"lack 1 tensors, encoder\.layer\.0"):
            open_checkpoint(file.parent)


def test_pickled_weights_are_never_read(saved: Save) -> None:
    path = saved()
    (path / "model.safetensors").unlink()
    torch.save({"made": "of pickles"}, path / "pytorch_model.bin")
    with pytest.raises(CheckpointUnsupported, match="safetensors"):
        open_checkpoint(path)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnsupported, match="cannot be read"):
        open_checkpoint(tmp_path)


def test_a_model_that_sees_padding_is_found_out(
    minilm: EmbeddingCheckpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder(minilm)
    encoder.prove(range(1, 17))
    padded = encoder._padded

    def unmasked(inputs: Any) -> Any:
        token_ids, mask = padded(inputs)
        return token_ids, torch.ones_like(mask)

    monkeypatch.setattr(encoder, "_padded", unmasked)
    with pytest.raises(CheckpointUnsupported, match="padding"):
        encoder.prove(range(1, 17))
