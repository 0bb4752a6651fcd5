"""What the gateway counts is what the model's own tokenizer and template make of a conversation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.tokens import ByteBound, CheckpointTokens, UnrenderableConversation

MODELS = Path(__file__).parents[2] / "models"
HARD = [
    "",
    " ",
    "\n\n\t \n",
    "Tell me a story about a lighthouse.",
    "é è ü ß \u0301e\u0301 \u200b\u200d",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "日本語のテキスト 中文 العربية עברית",
    "<|user|><|assistant|></s><s><|endoftext|><unk><pad>",
    "{{ messages }} {% for m in messages %}{{ m }}{% endfor %}",
    "\x00\x01\x7f\ufeff\ufffd",
    "a" * 3000,
    "  leading and trailing  ",
    "1234567890 3.14159 0xdeadbeef",
    "def f(x):\n\treturn x**2  # ünïcode\r\n",
]
CONVERSATIONS: list[list[dict[str, Any]]] = [
    *([{"role": "user", "content": text}] for text in HARD),
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
    [
        {"role": "system", "content": HARD[4]},
        {"role": "user", "content": HARD[5]},
        {"role": "assistant", "content": HARD[6]},
        {"role": "user", "content": HARD[7]},
    ],
]


@pytest.mark.parametrize("name", ["sluice-small", "sluice-large"])
def test_counts_equal_those_of_transformers(name: str) -> None:
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(str(MODELS / name))
    ours = CheckpointTokens(MODELS / name)
    for messages in CONVERSATIONS:
        ids = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert ours.count(messages) == len(ids), messages


def test_byte_bound_is_never_less_than_the_count() -> None:
    ours = CheckpointTokens(MODELS / "sluice-small")
    for messages in CONVERSATIONS:
        assert ByteBound().count(messages) >= ours.count(messages), messages


def test_folder_without_a_template_is_no_checkpoint(tmp_path: Path) -> None:
    source = MODELS / "sluice-small"
    (tmp_path / "tokenizer.json").write_bytes((source / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text("{}")
    with pytest.raises(ValueError, match="no chat template"):
        CheckpointTokens(tmp_path)
    with pytest.raises(OSError):
        CheckpointTokens(tmp_path / "nowhere")


def _checkpoint_with(template: str, folder: Path) -> CheckpointTokens:
    source = MODELS / "sluice-small"
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((source / name).read_bytes())
    (folder / "chat_template.jinja").write_text(template)
    return CheckpointTokens(folder)


def test_template_that_refuses_is_a_conversation_that_cannot_be_rendered(tmp_path: Path) -> None:
    refusing = _checkpoint_with("{{ raise_exception('roles must alternate') }}", tmp_path)
    with pytest.raises(UnrenderableConversation, match="must alternate"):
        refusing.count([{"role": "user", "content": "Hi"}])


def test_template_cannot_reach_out_of_its_sandbox(tmp_path: Path) -> None:
    hostile = _checkpoint_with("{{ messages.__class__.__mro__[1].__subclasses__() }}", tmp_path)
    with pytest.raises(UnrenderableConversation):
        hostile.count([{"role": "user", "content": "Hi"}])
