"""Each law of the record is seen to break."""

from dataclasses import replace

from models.answer import Answer
from models.laws import Measure, Pair, broken_laws, repeats

GOOD = Pair("Hello", Answer("a b c", 25, True), Answer("a b d", 25, True))
SMALL, LARGE = Measure(10, 2.0), Measure(40, 1.0)


def test_good_record_breaks_no_law():
    assert broken_laws([GOOD], SMALL, LARGE) == []


def test_eight_words_again_are_a_repeat_and_seven_are_not():
    run = "one two three four five six seven"
    assert not repeats(f"{run} and {run} but")
    assert repeats(f"{run} eight and {run} eight")


def test_each_fault_is_named():
    faults = {
        "same answer": replace(GOOD, large=GOOD.small),
        "answer of 3 tokens": replace(GOOD, small=Answer("x", 3, True)),
        "repeats 8 words": replace(GOOD, small=Answer("w " * 20, 25, True)),
        "do not end": replace(GOOD, large=Answer("a b d", 25, False)),
    }
    for words, pair in faults.items():
        assert any(words in problem for problem in broken_laws([pair], SMALL, LARGE)), words


def test_larger_model_must_be_larger_and_better():
    assert broken_laws([GOOD], SMALL, Measure(39, 1.0))
    assert broken_laws([GOOD], SMALL, Measure(40, 2.0))
