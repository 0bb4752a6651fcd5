"""The corpus is a function of its generator, and its splits are kept apart."""

from random import Random

import pytest

from models.corpus import Passage, Talk, draw_split, draw_talk, text_of
from models.corpus.stories import HEROES, draw_story
from models.corpus.tables.plots import PLOTS
from models.laws import repeats
from models.prompts import PROMPTS

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
        roles = [turn.role for turn in talk.turns if turn.role != "system"]
        assert roles == ["user", "assistant"] * (len(roles) // 2)


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
