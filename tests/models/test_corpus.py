"""The corpus is a function of its generator, and its splits are kept apart."""

import json
import re
from pathlib import Path
from random import Random

import jsonschema
import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from models.batches import IGNORED, encode_rows
from models.corpus import Passage, Talk, Turn, draw_split, draw_talk, text_of
from models.corpus.stories import HEROES, draw_story
from models.corpus.tables.plots import PLOTS
from models.laws import repeats
from models.prompts import PROMPTS
from models.tokenizer import CONTEXT_TOKENS

SAMPLES = 4000


@pytest.fixture(scope="module")
def split():
    return draw_split(Random(1), SAMPLES, PROMPTS)


def test_same_seed_draws_the_same_text():
    assert draw_talk(Random(5)) == draw_talk(Random(5))


def test_no_held_out_text_is_in_the_training_text(split):
    assert split.held_out
    assert not {text_of(s) for s in split.train} & {text_of(s) for s in split.held_out}


def test_no_training_talk_contains_a_fixed_prompt(split):
    for talk in (s for s in (*split.train, *split.held_out) if isinstance(s, Talk)):
        for said in talk.said_by_user:
            assert not any(prompt.casefold() in said.casefold() for prompt in PROMPTS)


def test_every_talk_alternates_and_ends_with_the_assistant(split):
    for talk in (s for s in split.train if isinstance(s, Talk)):
        roles = [turn.role for turn in talk.turns if turn.role not in ("system", "tool")]
        asked = [role for n, role in enumerate(roles) if n == 0 or role != roles[n - 1]]
        assert asked == ["user", "assistant"] * (len(asked) // 2)


def test_every_story_names_its_hero_fills_every_slot_and_repeats_nothing():
    rng = Random(2)
    for hero in HEROES:
        for subject in PLOTS:
            story = draw_story(rng, hero, subject)
            assert hero in story.text and story.name in story.text
            assert "{" not in story.text + story.sequel
            assert not repeats(story.text)


def test_passages_are_plain_prose(split):
    passages = [s for s in split.train if isinstance(s, Passage)]
    assert passages
    assert all("<|" not in passage.text for passage in passages)


CALL = re.compile(r"<tool_call>\n(.*)\n</tool_call>")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return AutoTokenizer.from_pretrained(Path(__file__).parents[2] / "models" / "sluice-small")


def _calling(split) -> list[Talk]:
    return [sample for sample in split.train if isinstance(sample, Talk) and sample.tools]


def test_every_call_is_of_a_tool_on_offer_and_by_its_schema(split):
    called = 0
    for talk in _calling(split):
        offered = {
            tool["function"]["name"]: tool["function"] for tool in map(json.loads, talk.tools)
        }
        for turn in talk.turns:
            for said in CALL.findall(turn.content):
                call = json.loads(said)
                jsonschema.validate(call["arguments"], offered[call["name"]]["parameters"])
                called += 1
    assert called > 100


def test_tools_are_called_and_let_be(split):
    """So that a model decides."""
    first = [
        next(turn.content for turn in talk.turns if turn.role == "assistant")
        for talk in _calling(split)
    ]
    calls = sum(said.startswith("<tool_call>") for said in first)
    assert 0.5 * len(first) < calls < 0.9 * len(first)


def test_a_talk_is_encoded_as_the_chat_template_writes_it(split, tokenizer):
    for talk in _calling(split)[:40]:
        messages = [{"role": turn.role, "content": turn.content} for turn in talk.turns]
        tools = [json.loads(tool) for tool in talk.tools]
        wanted = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
        [row] = encode_rows([talk], tokenizer)
        assert tokenizer.decode(row.ids) == wanted


def test_what_a_form_gives_is_not_learned(tokenizer):
    content = '{"name": "Ada"}'
    given = Turn("assistant", content, ((0, len('{"name": "')),))
    [row] = encode_rows([Talk((Turn("user", "Ada is here."), given))], tokenizer)
    learned = [token for token in row.labels if token != IGNORED]
    assert tokenizer.decode(learned) == 'Ada"}<|end|>'


def test_samples_reach_every_part_of_the_context(split, tokenizer):
    rows = encode_rows(split.train, tokenizer)
    longest = max(len(row.ids) for row in rows)
    assert 0.9 * CONTEXT_TOKENS < longest <= CONTEXT_TOKENS
    for start in range(0, CONTEXT_TOKENS * 7 // 8, CONTEXT_TOKENS // 8):
        part = slice(start, start + CONTEXT_TOKENS // 8)
        assert any(token != IGNORED for row in rows for token in row.labels[part]), start
