"""Vectors of the real model, beside transformers' own."""

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from tests.workers.engines.embedding.conftest import MINILM_PATH
from tests.workers.engines.embedding.pairs import PARAPHRASES, UNRELATED
from workers.engines.embedding.checkpoint import EmbeddingCheckpoint
from workers.engines.embedding.encoder import Encoder, shortened, unit
from workers.engines.text import CheckpointText

TOLERANCE = 1e-5
TEXTS = [
    "a",
    "The quick brown fox jumps over the lazy dog.",
    "",
    "水は百度で沸騰する。 🚣 émigré",
    "How do I reset my password? " * 12,
    "1234567890" * 9,
    "[SEP] is spelled in this one",
]


def test_vectors_are_those_of_a_direct_mean_pool_whatever_else_is_in_the_batch(
    minilm: EmbeddingCheckpoint, text: CheckpointText
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(MINILM_PATH)
    model = AutoModel.from_pretrained(MINILM_PATH).eval()
    encoder = Encoder(minilm)
    inputs = [text.token_ids(each) for each in TEXTS]
    together, reversed_ = encoder.vectors(inputs), encoder.vectors(inputs[::-1])[::-1]
    for row, each in enumerate(TEXTS):
        encoded = tokenizer(each, return_tensors="pt", padding=False, truncation=False)
        assert tuple(encoded["input_ids"][0].tolist()) == inputs[row]
        with torch.inference_mode():
            hidden = model(**encoded).last_hidden_state[0]
        wanted = torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy()
        for mine in (together[row], reversed_[row], encoder.vectors([inputs[row]])[0]):
            assert abs(mine - wanted).max() < TOLERANCE


def test_every_paraphrase_lies_nearer_than_every_unrelated_pair(
    minilm: EmbeddingCheckpoint, text: CheckpointText
) -> None:
    encoder = Encoder(minilm)

    def nearness(pair: tuple[str, str]) -> float:
        one, other = encoder.vectors([text.token_ids(each) for each in pair])
        return float(one @ other)

    assert len(set(PARAPHRASES)) == len(set(UNRELATED)) == 20
    near, far = sorted(map(nearness, PARAPHRASES)), sorted(map(nearness, UNRELATED))
    assert near[0] > far[-1]


def test_fewer_dimensions_are_the_first_ones_at_length_one() -> None:
    vector = unit(np.arange(1, 9, dtype=np.float32)[None])[0]
    for dimensions in (1, 3, 8):
        kept = np.frombuffer(shortened(vector, dimensions), "<f4")
        assert kept.shape == (dimensions,)
        assert abs(np.linalg.norm(kept) - 1) < 1e-6
        assert np.allclose(kept / kept[0], vector[:dimensions] / vector[0])
    assert shortened(vector, None) == vector.astype("<f4").tobytes()


def test_a_vector_of_nothing_stays_one() -> None:
    assert not unit(np.zeros((1, 3), np.float32)).any()
