"""What a checkpoint says about itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.catalog.weights.facts import Facts, check_embedding, output_tokens, read_facts
from gateway.catalog.weights.files import UnfitWeights
from routing.types import Task

LLAMA = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 8192}
BERT = {"architectures": ["BertModel"], "max_position_embeddings": 512}
ROBERTA = {"architectures": ["RobertaModel"], "model_type": "roberta", "pad_token_id": 1}


def written(folder: Path, **files: Any) -> Path:
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("config", "facts"),
    [
        (LLAMA, Facts(Task.GENERATE, 8192)),
        (BERT, Facts(Task.EMBED, 512)),
        (ROBERTA | {"max_position_embeddings": 514}, Facts(Task.EMBED, 512)),
        ({"text_config": LLAMA}, Facts(None, 8192)),
        ({}, Facts(None, None)),
        ({"architectures": {"a": 1}, "max_position_embeddings": "many"}, Facts(None, None)),
    ],
)
def test_task_and_context_are_read_from_the_configuration(
    tmp_path: Path, config: dict[str, Any], facts: Facts
) -> None:
    assert read_facts(written(tmp_path, config=config)) == facts


def test_sentence_model_says_its_own_length(tmp_path: Path) -> None:
    written(tmp_path, config=BERT, sentence_bert_config={"max_seq_length": 256})
    assert read_facts(tmp_path) == Facts(Task.EMBED, 256)


def test_folder_without_configuration_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnfitWeights, match=r"no config.json"):
        read_facts(tmp_path)


def test_vectors_that_are_no_plain_mean_are_refused(tmp_path: Path) -> None:
    (tmp_path / "1_Pooling").mkdir()
    pooling = tmp_path / "1_Pooling" / "config.json"
    pooling.write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    check_embedding(tmp_path)
    pooling.write_text(json.dumps({"pooling_mode_cls_token": True}))
    with pytest.raises(UnfitWeights, match="pooling_mode_cls_token"):
        check_embedding(tmp_path)


def test_module_that_is_not_served_is_refused(tmp_path: Path) -> None:
    written(tmp_path, modules=[{"type": "sentence_transformers.models.Dense"}])
    with pytest.raises(UnfitWeights, match="Dense"):
        check_embedding(tmp_path)


def test_output_is_half_the_context_within_bounds() -> None:
    assert output_tokens(Task.GENERATE, 1024) == 512
    assert output_tokens(Task.GENERATE, 1 << 20) == 4096
    assert output_tokens(Task.EMBED, 512) == 1
