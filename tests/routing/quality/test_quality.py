"""Laws of expected quality: deterministic, in [0, 1], bounded, and the table's where nothing was
learned."""

import json
import subprocess
import sys
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.quality.curve import JudgedCall, curve, share_by_chance, share_needed
from routing.quality.document import (
    FORM,
    BadQualityDocument,
    QualityDocument,
    read,
    written,
)
from routing.quality.features import CHARACTERS_MAX, NUMBERS, WIDE_MAX, features_of
from routing.quality.model import (
    LinearModel,
    QualityModel,
    expected_quality,
    refined,
)

SHARES = st.floats(0, 1)
WEIGHTS = st.floats(-1e6, 1e6)


@st.composite
def documents(draw: st.DrawFn) -> QualityDocument:
    words = draw(st.lists(st.text("abc", min_size=1), unique=True, max_size=4))

    def some(count: int) -> tuple[float, ...]:
        return tuple(draw(st.lists(WEIGHTS, min_size=count, max_size=count)))

    linear = LinearModel(draw(WEIGHTS), draw(WEIGHTS), some(len(NUMBERS)), some(len(words)))
    places = {word: place for place, word in enumerate(words)}
    return QualityDocument(QualityModel(places, some(len(words)), {"m": linear}), {})


@given(st.text())
def test_every_prompt_has_finite_features_in_their_order(prompt: str) -> None:
    features = features_of(prompt)
    assert len(features.numbers) == len(NUMBERS)
    assert all(map(isfinite, features.numbers))
    assert features == features_of(prompt)


@given(documents(), st.text(), SHARES)
def test_an_expected_quality_is_a_share(doc: QualityDocument, prompt: str, table: float) -> None:
    seen = doc.model.vector(features_of(prompt))
    assert 0 <= expected_quality(table, doc.model.models["m"], seen) <= 1


@given(SHARES, st.text())
def test_without_a_learned_model_the_table_stands(table: float, prompt: str) -> None:
    seen = QualityModel({}, (), {}).vector(features_of(prompt))
    assert expected_quality(table, None, seen) == table


@given(documents(), st.text(), SHARES, SHARES)
def test_a_better_table_never_lowers_what_is_expected(
    doc: QualityDocument, prompt: str, one: float, other: float
) -> None:
    seen, model = doc.model.vector(features_of(prompt)), doc.model.models["m"]
    low, high = sorted((one, other))
    worse, better = expected_quality(low, model, seen), expected_quality(high, model, seen)
    assert worse <= better + 1e-9


@given(documents(), st.text(), SHARES)
def test_deviations_of_a_call_say_what_each_model_says_itself(
    doc: QualityDocument, prompt: str, table: float
) -> None:
    deviations = doc.model.deviations(prompt, ["m", "unknown"])
    assert set(deviations) == {"m"}
    seen = doc.model.vector(features_of(prompt))
    assert refined(table, deviations["m"]) == expected_quality(table, doc.model.models["m"], seen)
    assert refined(0.0, deviations["m"]) == 0 and refined(1.0, deviations["m"]) == 1


def test_names_of_a_model_are_its_own_and_those_of_its_variants() -> None:
    nothing = LinearModel(0.0, 0.0, (0.0,) * len(NUMBERS), ())
    names = ("m", "m/int8", "mm", "mm/m", "n/m")
    model = QualityModel({}, (), dict.fromkeys(names, nothing))
    assert model.names(["m"]) == ["m", "m/int8"]
    assert model.names(["mm", "n"]) == ["mm", "mm/m", "n/m"]
    assert model.names([]) == []


@given(documents())
def test_a_document_comes_back_as_it_was_written(doc: QualityDocument) -> None:
    assert read(written(doc)) == doc
    assert written(read(written(doc))) == written(doc)


@given(st.text() | st.from_type(type(None)).map(json.dumps))
def test_whatever_is_no_document_is_refused_with_its_mistakes(text: str) -> None:
    with pytest.raises(BadQualityDocument) as refused:
        read(text)
    assert refused.value.mistakes


def test_every_mistake_of_a_document_is_named() -> None:
    wrong = {"form": FORM, "numbers": ["x"], "words": ["a", "a"], "models": {"m": {}}}
    with pytest.raises(BadQualityDocument) as refused:
        read(json.dumps(wrong))
    fields = {mistake.split(":")[0] for mistake in refused.value.mistakes}
    assert {"numbers", "words", "rarities", "training", "models.m.average"} <= fields


def test_a_long_prompt_is_read_at_its_ends_alone() -> None:
    middle = "x" * 50_000
    ends = features_of("first " * 300 + middle + " last" * 300)
    assert {"first", "last"} <= ends.words
    assert len(ends.words) <= CHARACTERS_MAX


@given(st.text("aé水 .", min_size=CHARACTERS_MAX, max_size=3 * CHARACTERS_MAX))
def test_the_words_of_any_prompt_are_bounded(prompt: str) -> None:
    words = features_of(prompt).words
    assert len(words) <= CHARACTERS_MAX
    assert "水" not in prompt[:WIDE_MAX] or "水" in words


def test_capitals_marks_and_digits_do_not_hide_a_word() -> None:
    assert {"momentum", "3", "6", "?", "."} <= features_of("MOMENTUM of 3.6 (momentum)?").words


def test_features_are_the_same_in_another_process() -> None:
    code = (
        "from routing.quality.features import features_of as f;"
        "x = f('Why is 2 + 2 = 4, not 5?'); print(x.numbers, sorted(x.words))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    here = features_of("Why is 2 + 2 = 4, not 5?")
    assert said.stdout.strip() == f"{here.numbers} {sorted(here.words)}"


def test_code_and_sums_and_other_scripts_are_seen() -> None:
    by_name = dict(zip(NUMBERS, features_of("```\nx == 3 * 4\n```").numbers, strict=True))
    assert by_name["has_code"] == by_name["has_arithmetic"] == 1
    assert (
        dict(zip(NUMBERS, features_of("水の沸点は").numbers, strict=True))["wide_script_share"] == 1
    )


CALLS = st.lists(st.builds(JudgedCall, st.floats(-1, 1), SHARES, SHARES), min_size=1, max_size=30)


@given(CALLS)
def test_a_curve_goes_from_the_cheap_model_to_the_strong_one(calls: list[JudgedCall]) -> None:
    points = curve(calls)
    assert points[0].score == pytest.approx(sum(c.cheap for c in calls) / len(calls))
    assert points[-1].score == pytest.approx(sum(c.strong for c in calls) / len(calls))
    assert [p.share for p in points] == sorted(p.share for p in points)


@given(CALLS)
def test_a_router_that_knows_the_answers_needs_no_more_than_chance(calls: list[JudgedCall]) -> None:
    knows = [c._replace(gain=c.strong - c.cheap) for c in calls]
    whole_calls = 1 / len(calls)
    assert share_needed(knows, 0.95) <= share_by_chance(calls, 0.95) + whole_calls + 1e-9
