"""The two committed checkpoints keep what the record promises of them."""

import json
from pathlib import Path

import pytest
import torch

from models.answer import Answer, Speaker, answer, load_speaker
from models.laws import PARAMETER_RATIO_MIN, broken_laws
from models.network import parameter_count
from models.prompts import PROMPTS
from models.record import read_measure, read_pairs
from models.sizes import LARGE, SIZES, SMALL
from models.tokenizer import CONTEXT_TOKENS

MODELS = Path(__file__).parents[2] / "models"
BYTES_MAX = 25_000_000
RECOMPUTED = (0, 7, 17)

HARD_STRINGS = (
    "日本語とแบบไทย और हिन्दी",
    "🚀 family: 👨‍👩‍👧‍👦 flag: 🇩🇪",
    "tabs\tand\r\nlines\x00\x07\x1b[31m",
    "31415926535897932384626433832795028841971693993751",
    "  two  spaces , and don't \u200b\u202e",
    'def f(x):\n    return {"a": [x ** 2]}',
    "",
)


@pytest.fixture(scope="module")
def speakers() -> dict[str, Speaker]:
    torch.set_num_threads(1)  # others run beside it, and threads of one step wait for each other
    return {name: load_speaker(MODELS / name) for name in SIZES}


@pytest.fixture(scope="module")
def record() -> dict:
    return json.loads((MODELS / "record.json").read_text())


def test_larger_model_has_at_least_four_times_the_parameters(speakers):
    small, large = (parameter_count(speakers[size.name].network) for size in (SMALL, LARGE))
    assert large >= PARAMETER_RATIO_MIN * small


def test_checkpoints_weigh_less_than_25_megabytes_together():
    files = [path for name in SIZES for path in (MODELS / name).iterdir()]
    assert sum(path.stat().st_size for path in files) < BYTES_MAX


def test_weights_are_half_precision_safetensors():
    for name in SIZES:
        assert json.loads((MODELS / name / "config.json").read_text())["dtype"] == "float16"
        assert (MODELS / name / "model.safetensors").exists()


def test_larger_model_has_its_own_higher_price():
    assert LARGE.price_input_nanousd_per_mtok > SMALL.price_input_nanousd_per_mtok
    assert LARGE.price_output_nanousd_per_mtok > SMALL.price_output_nanousd_per_mtok


def test_record_names_the_text_and_its_licence(record):
    assert "CC0-1.0" in record["corpus"]["licence"]
    assert record["corpus"]["licence"] in (MODELS / "RECORD.md").read_text()


def test_record_keeps_its_laws(record):
    assert [row["prompt"] for row in record["answers"]] == list(PROMPTS)
    assert broken_laws(read_pairs(record), read_measure(record, 0), read_measure(record, 1)) == []


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("number", RECOMPUTED)
def test_recorded_answer_is_what_the_model_says(name, number, speakers, record):
    row = record["answers"][number]
    assert answer(speakers[name], row["prompt"]) == Answer(**row[name])


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("text", HARD_STRINGS)
def test_any_string_comes_back_from_the_tokenizer(name, text, speakers):
    tokenizer = speakers[name].tokenizer
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_both_models_share_one_tokenizer():
    small, large = ((MODELS / name / "tokenizer.json").read_bytes() for name in SIZES)
    assert small == large


def test_chat_template_marks_every_role_and_opens_the_answer(speakers):
    turns = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Bye"},
    ]
    tokenizer = speakers[SMALL.name].tokenizer
    said = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    assert said == (
        "<|begin|><|system|>Be brief.<|end|><|user|>Hello<|end|>"
        "<|assistant|>Hi.<|end|><|user|>Bye<|end|><|assistant|>"
    )


@pytest.mark.parametrize("name", SIZES)
def test_generation_ends_at_the_end_of_a_turn(name, speakers):
    network, tokenizer = speakers[name].network, speakers[name].tokenizer
    assert network.generation_config.eos_token_id == tokenizer.eos_token_id
    assert tokenizer.eos_token == "<|end|>"


@pytest.mark.parametrize("name", SIZES)
def test_prompt_near_the_context_limit_is_answered(name, speakers):
    tokenizer = speakers[name].tokenizer
    long_prompt = "a fox and a river, " * 665
    assert CONTEXT_TOKENS - 200 < len(tokenizer.encode(long_prompt)) < CONTEXT_TOKENS
    assert answer(speakers[name], long_prompt).tokens > 1
