"""One prompt, one greedy answer. The record holds it, and the record's check computes it again."""

from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

ANSWER_TOKENS_MAX = 200


@dataclass(frozen=True, slots=True)
class Speaker:
    name: str
    network: LlamaForCausalLM
    tokenizer: PreTrainedTokenizerFast


@dataclass(frozen=True, slots=True)
class Answer:
    """`tokens` counts what was generated, the end token included where `ended`."""

    text: str
    tokens: int
    ended: bool


def load_speaker(folder: Path) -> Speaker:
    """The checkpoint as float32, in which a CPU is both faster and more exact."""
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return Speaker(folder.name, network.eval(), AutoTokenizer.from_pretrained(folder))


def answer(speaker: Speaker, prompt: str) -> Answer:
    turns = [{"role": "user", "content": prompt}]
    inputs = speaker.tokenizer.apply_chat_template(
        turns, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        output = speaker.network.generate(
            **inputs, do_sample=False, max_new_tokens=ANSWER_TOKENS_MAX
        )
    generated = output[0, inputs["input_ids"].shape[1] :].tolist()
    ended = generated[-1] == speaker.tokenizer.eos_token_id
    text = speaker.tokenizer.decode(generated, skip_special_tokens=True)
    return Answer(text, len(generated), ended)
