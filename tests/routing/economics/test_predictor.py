"""What is learned from calls: laws first, then two hundred calls of a synthetic part."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.economics.calibration import Calibration, Verdict
from routing.economics.lengths import BUCKETS, SCOPES_MAX, Lengths, Scope, TokensOfBytes
from routing.economics.predictor import (
    FIRST_GUESS,
    FIRST_PRIOR,
    TARGETS_MAX,
    Facts,
    Load,
    Predictor,
)
from routing.economics.roofline import roofline
from routing.hardware.catalogue import Precision, shipped
from routing.speeds import QUANTILES, Speeds
from tests.routing.economics.test_roofline import LLAMA_8B

LINE = roofline(LLAMA_8B, Precision.BF16, shipped()["h100"])
SCOPE = Scope("llama", "org", "key")
seconds = st.floats(1e-6, 1e4)
times = st.lists(st.tuples(seconds, seconds), max_size=60)


# --- laws ----------------------------------------------------------------------------------------


@given(times, seconds, seconds)
def test_prediction_never_passes_the_roofline_and_grows_with_it(
    observed: list[tuple[float, float]], ceiling_s: float, more_s: float
) -> None:
    calibration = Calibration(FIRST_PRIOR)
    for each, took_s in observed:
        calibration.observe((each,), took_s)
    [efficiency] = calibration.efficiencies
    assert 0.05 * 0.999 <= efficiency <= 1
    predicted_s = calibration.predict_s((ceiling_s,))
    assert ceiling_s <= predicted_s <= calibration.predict_s((ceiling_s + more_s,))


@given(times, st.sampled_from([FIRST_PRIOR, FIRST_GUESS]))
def test_every_observation_is_taken_or_counted_as_refused(
    observed: list[tuple[float, float]], prior: object
) -> None:
    calibration = Calibration(FIRST_PRIOR if prior is FIRST_PRIOR else FIRST_GUESS)
    for ceiling_s, took_s in observed:
        calibration.observe((ceiling_s,), took_s)
    assert calibration.taken + sum(calibration.refused.values()) == len(observed)


@given(times)
def test_quantiles_are_in_order(observed: list[tuple[float, float]]) -> None:
    calibration = Calibration(FIRST_GUESS)
    for ceiling_s, took_s in observed:
        calibration.observe((ceiling_s,), took_s)
    factors = [calibration.factor(quantile) for quantile in QUANTILES]
    assert factors == sorted(factors) and factors[0] > 0 and factors[-1] < math.inf


@pytest.mark.parametrize(
    ("ceiling_s", "took_s", "verdict"),
    [
        (0.1, 0.09, Verdict.ABOVE_ROOFLINE),
        (0.1, 2.3, Verdict.TOO_SLOW),
        (0.1, math.nan, Verdict.NO_NUMBER),
        (0.1, -1.0, Verdict.NO_NUMBER),
        (0.0, 1.0, Verdict.NO_NUMBER),
        (0.1, 0.2, Verdict.TAKEN),
    ],
)
def test_what_cannot_be_changes_nothing(ceiling_s: float, took_s: float, verdict: Verdict) -> None:
    calibration = Calibration(FIRST_PRIOR)
    before = calibration.predict_s((0.1,))
    assert calibration.observe((ceiling_s,), took_s) is verdict
    if verdict is not Verdict.TAKEN:
        assert calibration.predict_s((0.1,)) == before
        assert calibration.refused == {verdict: 1}


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 5000)), max_size=80), st.data())
def test_length_is_inside_of_the_ceiling_and_grows_with_it(
    answers: list[tuple[int, int]], data: st.DataObject
) -> None:
    lengths = Lengths()
    for tokens, ceiling in answers:
        lengths.observe(SCOPE, min(tokens, ceiling), ceiling)
    ceiling, more = data.draw(st.integers(1, 4096)), data.draw(st.integers(0, 4096))
    assert 0 < lengths.expected(SCOPE, ceiling) <= ceiling
    assert lengths.expected(SCOPE, ceiling + more) >= lengths.expected(SCOPE, ceiling) * (1 - 1e-9)
    low, high = sorted(data.draw(st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99))))
    assert (
        lengths.quantile(SCOPE, low, ceiling) <= lengths.quantile(SCOPE, high, ceiling) <= ceiling
    )


@given(
    st.lists(st.tuples(st.integers(0, 9999), st.integers(0, 9999)), max_size=60),
    st.integers(0, 9999),
)
def test_expected_tokens_of_a_prompt_are_inside_of_its_bytes(
    prompts: list[tuple[int, int]], prompt_bytes: int
) -> None:
    learned = TokensOfBytes()
    for size, tokens in prompts:
        assert learned.observe("m", size, tokens) == (0 < tokens <= size)
    assert 0 <= learned.expected("m", prompt_bytes) <= prompt_bytes


def test_memory_is_bounded_however_many_targets_and_keys_there_are() -> None:
    predictor = Predictor()
    for n in range(TARGETS_MAX + 50):
        predictor.learn(f"target {n}")
    assert len(predictor.targets) == TARGETS_MAX
    lengths = Lengths()
    for n in range(SCOPES_MAX + 50):
        lengths.observe(Scope("m", "o", f"key {n}"), 10, 100)
    assert len(lengths) == SCOPES_MAX
    assert BUCKETS < 100


# --- examples ------------------------------------------------------------------------------------


def test_answers_of_a_key_are_its_own_where_there_are_enough() -> None:
    lengths = Lengths()
    for _ in range(40):
        lengths.observe(Scope("m", "o", "short"), 20, 4096)
        lengths.observe(Scope("m", "o", "long"), 1000, 4096)
    assert lengths.expected(Scope("m", "o", "short"), 4096) == pytest.approx(20, rel=0.2)
    assert lengths.expected(Scope("m", "o", "long"), 4096) == pytest.approx(1000, rel=0.2)
    everybody = lengths.expected(Scope("m", "another", "new"), 4096)
    assert 400 < everybody < 620


def test_answer_that_its_ceiling_cut_was_longer_than_seen() -> None:
    lengths = Lengths()
    for n in range(60):
        lengths.observe(SCOPE, 16 if n % 2 else 400, 16 if n % 2 else 4096)
    assert lengths.quantile(SCOPE, 0.5, 4096) > 300


def test_nobody_expects_half_of_a_large_ceiling() -> None:
    assert Lengths().expected(SCOPE, 4096) == pytest.approx(180)
    assert Lengths().expected(SCOPE, 32) == 32


def test_bytes_of_a_prompt_are_learned_to_be_fewer_tokens() -> None:
    learned = TokensOfBytes()
    for _ in range(100):
        learned.observe("m", 6000, 1000)
    assert learned.expected("m", 600) == pytest.approx(100, rel=0.02)


def test_lengths_follow_what_answers_are_lately() -> None:
    lengths = Lengths()
    for tokens in [1000] * 2000 + [20] * 2000:
        lengths.observe(SCOPE, tokens, 4096)
    assert lengths.expected(SCOPE, 4096) == pytest.approx(20 + 0.018 * 980, rel=0.2)


def test_tokens_of_many_prompts_are_those_expected_whatever_is_wrapped_around_each() -> None:
    learned, rng = TokensOfBytes(), random.Random(3)
    expected = tokens = 0
    for n in range(600):
        size = round(math.exp(rng.uniform(math.log(50), math.log(4000))))
        wrapped = min(size, size // 5 + 30)
        if n >= 200:
            expected, tokens = expected + learned.expected("m", size), tokens + wrapped
        learned.observe("m", size, wrapped)
    assert expected == pytest.approx(tokens, rel=0.1)


@pytest.mark.parametrize("is_known", [True, False], ids=["roofline", "no roofline"])
def test_after_two_hundred_calls_ttft_is_predicted_and_nine_of_ten_are_inside(
    is_known: bool,
) -> None:
    """The error holds for each part. The share inside is that of twenty parts together: tails that
    are learned from 200 calls differ from one part to the next."""
    runs = [_predictions_of_a_part(random.Random(seed), is_known) for seed in range(20)]
    for run in runs:
        assert median(abs(ttft(speeds, facts, 0.5) - s) / s for speeds, facts, s in run) < 0.2
    inside = [
        ttft(speeds, facts, 0.05) <= ttft_s <= ttft(speeds, facts, 0.95)
        for run in runs
        for speeds, facts, ttft_s in run
    ]
    assert 0.85 <= sum(inside) / len(inside) <= 0.95


def ttft(speeds: Speeds, facts: Facts, quantile: float) -> float:
    """As a decision computes it."""
    expected_s = speeds.first_fixed_s + facts.fresh_tokens * speeds.first_s_per_token
    return expected_s * speeds.ttft_factors[QUANTILES.index(quantile)]


def _predictions_of_a_part(rng: random.Random, is_known: bool) -> list[tuple[Speeds, Facts, float]]:
    """400 predictions beside what happened, after 200 calls. The part reaches 0.42 of its FLOPS,
    needs 35 ms beside, and differs by a lognormal of a fifth."""
    predictor = Predictor()
    predictor.learn("t", LINE if is_known else None)

    def call() -> tuple[Facts, float]:
        prompt = round(math.exp(rng.uniform(math.log(50), math.log(16_000))))
        cached = round(prompt * rng.choice([0, 0, 0.5, 0.9]))
        batch = rng.randrange(12)
        facts = Facts("t", prompt, cached, Load(batch, batch * 900))
        true_s = 0.035 + LINE.prefill_s(prompt, cached) / 0.42 + LINE.step_s(batch, batch * 900)
        return facts, true_s * rng.lognormvariate(0, 0.2)

    def predicted(facts: Facts) -> Speeds:
        speeds = predictor.speeds("t", facts.load)
        assert speeds is not None
        return speeds

    for _ in range(200):
        facts, ttft_s = call()
        predictor.observe_first_token(facts, ttft_s)
    return [(predicted(facts), facts, ttft_s) for facts, ttft_s in (call() for _ in range(400))]


def test_speed_of_steps_and_a_calls_share_of_them_are_learned() -> None:
    rng = random.Random(4)
    predictor = Predictor()
    predictor.learn("t", LINE)
    for _ in range(200):
        batch = rng.randrange(32)
        facts = Facts("t", 500, 0, Load(batch, batch * 700))
        step_s = 0.002 + LINE.step_s(batch + 1, batch * 700 + 500 + 100) / 0.75
        predictor.observe_first_token(facts, 0.02 + LINE.prefill_s(500) / 0.5)
        predictor.observe_steps(facts, 200, step_s * rng.lognormvariate(0, 0.05))
        busy_s = LINE.prefill_s(500) / 0.5 + 200 * step_s / (batch + 1)
        predictor.observe_busy(facts, 200, busy_s)
    speeds = predictor.speeds("t", Load(8, 5600))
    assert speeds is not None
    assert speeds.step_s == pytest.approx(0.002 + LINE.step_s(9, 5600 + 600) / 0.75, rel=0.1)
    assert speeds.prompt_busy_s == pytest.approx(LINE.prefill_s(500) / 0.5 / 500, rel=0.25)
    usual_s = (0.002 + LINE.step_s(16, 16 * 700) / 0.75) / 16
    assert speeds.busy_s_per_token == pytest.approx(usual_s, rel=0.25)


def test_mean_of_times_that_spread_is_learned_and_not_less() -> None:
    """So what is booked of many calls is what was expected of them."""
    calibration, rng = Calibration(FIRST_GUESS), random.Random(8)
    for _ in range(600):
        ceiling_s = rng.uniform(0.01, 0.2)
        calibration.observe((ceiling_s,), ceiling_s * rng.lognormvariate(0, 0.5))
    assert calibration.predict_s((0.1,)) == pytest.approx(0.1 * math.exp(0.125), rel=0.1)


def test_busy_share_of_a_token_does_not_follow_the_load_of_the_instant() -> None:
    predictor = Predictor()
    predictor.learn("t", LINE)
    quiet, full = predictor.speeds("t", Load()), predictor.speeds("t", Load(30, 60_000, 9_000))
    assert quiet is not None and full is not None
    assert quiet.busy_s_per_token == full.busy_s_per_token
    assert quiet.first_fixed_s < full.first_fixed_s and quiet.step_s < full.step_s


def test_nothing_is_said_of_a_target_that_nothing_is_known_of() -> None:
    predictor = Predictor()
    predictor.learn("cpu")
    assert predictor.speeds("cpu") is None and predictor.speeds("never told") is None
    predictor.observe_first_token(Facts("cpu", 100), 0.2)
    assert predictor.speeds("cpu") is not None


def test_what_was_learned_goes_on_in_another_predictor() -> None:
    one, other = Predictor(), Predictor()
    rng = random.Random(5)
    for _ in range(100):
        facts = Facts("cpu", rng.randrange(1, 900), 0, Load(rng.randrange(4)))
        one.observe_first_token(facts, 0.01 + facts.prompt_tokens * 1e-4 + facts.load.batch * 1e-3)
    other.restore({name: target.learned() for name, target in one.targets.items()})
    assert other.speeds("cpu", Load(2)) == one.speeds("cpu", Load(2))
    kept = one.targets["cpu"].learned()
    strange = replace(kept, first=replace(kept.first, coefficients=[1.0]))
    with pytest.raises(ValueError, match="other parts"):
        Predictor().restore({"cpu": strange})


def test_error_is_that_of_predictions_made_before_what_came() -> None:
    calibration = Calibration(FIRST_GUESS)
    assert calibration.error is None and calibration.inside is None
    rng = random.Random(6)
    for _ in range(200):
        ceiling_s = rng.uniform(0.01, 0.2)
        calibration.observe((ceiling_s,), 0.02 + ceiling_s * 2)
    assert calibration.error is not None and calibration.error < 0.02
    assert calibration.inside is not None
    for _ in range(200):
        calibration.observe((0.1,), 5.0)
    assert calibration.error > 0.5
