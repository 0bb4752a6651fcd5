"""Prompts cut to a length: as many tokens as were asked for, and what stands around them stays."""

from pathlib import Path

import pytest

from tests.workers.engines.embedding.conftest import MINILM_PATH
from workers.engines.base import Bound
from workers.engines.text import CheckpointText

MODELS = Path(__file__).parents[3] / "models"
FOLDERS = [MODELS / "sluice-small", MINILM_PATH]
TEXT = "The fox went over the river and never came back to the gate."


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.parametrize("keeps_last", [True, False])
def test_a_text_is_cut_to_as_many_tokens_as_are_asked_for(folder: Path, keeps_last: bool) -> None:
    text = CheckpointText(folder)
    whole, around = text.token_ids(TEXT), text.token_ids("")
    for most in range(1, len(whole) + 2):
        cut = text.token_ids(TEXT, Bound(most, keeps_last))
        assert len(cut) == min(most, len(whole))
        if len(around) < most:
            begun, ended = cut[: len(around) // 2], cut[len(cut) - (len(around) + 1) // 2 :]
            assert begun + ended == around
    assert text.token_ids(TEXT, Bound(len(whole), keeps_last)) == whole


def test_the_end_of_a_prompt_stays_and_the_beginning_of_an_input() -> None:
    text = CheckpointText(MODELS / "sluice-small")
    whole = text.token_ids(TEXT)
    assert text.token_ids(TEXT, Bound(3, keeps_last=True))[-3:] == whole[-3:]
    assert text.token_ids(TEXT, Bound(3, keeps_last=False))[:3] == whole[:3]
