import shutil
from pathlib import Path

import pytest

from tests.workers.engines.conftest import MODEL_PATH
from workers.engines.base import CheckpointUnsupported, PromptInvalid
from workers.engines.chat import TemplateChat
from workers.engines.text import CheckpointText


def test_without_a_template_there_are_prompts_and_no_conversations(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODEL_PATH, folder)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(PromptInvalid, match="no chat template"):
        TemplateChat(folder).prompt_token_ids([{"role": "user", "content": "hello"}])
    assert CheckpointText(folder).token_ids("hello")


def test_text_may_spell_a_control_token_where_a_message_may_not(chat: TemplateChat) -> None:
    text = CheckpointText(MODEL_PATH)
    end = text.token_ids("<|end|>")
    assert len(end) == 1
    ended = chat.prompt_token_ids([{"role": "user", "content": "<|end|>"}])
    plain = chat.prompt_token_ids([{"role": "user", "content": "hello"}])
    assert ended.count(end[0]) == plain.count(end[0])


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnsupported, match="tokenizer"):
        CheckpointText(tmp_path)
