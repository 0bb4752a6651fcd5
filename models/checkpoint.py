"""A checkpoint folder on disk, written beside its place and moved there whole."""

import copy
import json
import shutil
from pathlib import Path

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast


def save_checkpoint(
    network: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path
) -> None:
    fresh, stale = (
        folder.with_name(f".{folder.name}.fresh"),
        folder.with_name(f".{folder.name}.stale"),
    )
    for leftover in (fresh, stale):
        shutil.rmtree(leftover, ignore_errors=True)
    copy.deepcopy(network).to(torch.float16).save_pretrained(fresh)
    tokenizer.save_pretrained(fresh)
    _make_portable(fresh / "tokenizer_config.json")
    (fresh / "model.safetensors").chmod(0o644)
    if folder.exists():
        folder.rename(stale)
    fresh.rename(folder)
    shutil.rmtree(stale, ignore_errors=True)


def _make_portable(path: Path) -> None:
    """Write the class that transformers 4 and 5 both know, and drop settings that hold only on this
    machine."""
    settings = json.loads(path.read_text())
    fields = {
        key: value
        for key, value in settings.items()
        if key not in {"backend", "is_local", "local_files_only"}
    }
    path.write_text(
        json.dumps(
            fields | {"tokenizer_class": "PreTrainedTokenizerFast"}, indent=2, ensure_ascii=False
        )
        + "\n"
    )
