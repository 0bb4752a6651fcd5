"""A decision weighs the quality that is expected of each model on this prompt; what is validated
stays the condition of a least quality."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from routing.decide import decide
from routing.hardware.catalogue import Precision
from routing.policy.action import Action
from routing.types import Call, Candidate, Decision, FleetSnapshot, Refusal
from routing.variants import Validation, Variant
from tests.routing.fleets import MODELS, any_call, any_fleet, call, fleet, matched, pool, warm

ODDS = st.floats(-40, 40)
deviations = st.dictionaries(st.sampled_from([*MODELS]), ODDS)
BOTH = fleet(
    warm(pool("cheap", model="small", cost_nanousd_per_s=10_000)),
    warm(pool("strong", model="large", cost_nanousd_per_s=60_000)),
)
STEP = Action(quality_nanousd_per_step=10_000)


def decided(wanted: Call, snapshot: FleetSnapshot, action: Action = STEP) -> Decision:
    decision = decide(wanted, snapshot, matched(action), 1)
    assert isinstance(decision, Decision), decision
    return decision


def chosen(action: Action = STEP, **deviation: float) -> str:
    wanted = call("small", "large", quality_deviations=deviation)
    return decided(wanted, BOTH, action).chosen.pool


def test_auto_takes_the_model_that_this_prompt_needs() -> None:
    assert chosen() == chosen(small=0.0, large=0.0)
    assert chosen(small=3.0, large=0.5) == "cheap"
    assert chosen(small=-3.0, large=0.5) == "strong"


def test_quality_that_is_worth_nothing_is_not_weighed() -> None:
    nothing = Action(quality_nanousd_per_step=0)
    assert chosen(nothing, small=-30.0, large=30.0) == "cheap"


@given(any_call(), any_fleet(), deviations)
def test_the_terms_of_a_candidate_are_still_its_score(
    wanted: Call, snapshot: FleetSnapshot, deviation: dict[str, float]
) -> None:
    """And without a table that can be moved, or of an average prompt, nothing moves."""
    moved = decide(wanted._replace(quality_deviations=deviation), snapshot, matched(), 1)
    for candidate in moved.candidates:
        terms = [int(part.split()[1]) for part in candidate.terms.split(" + ") if " " in part]
        assert abs(sum(terms) - candidate.score_nanousd) <= len(terms) + 1
    average = wanted._replace(quality_deviations=dict.fromkeys(MODELS, 0.0))
    before, same = (decide(each, snapshot, matched(), 1) for each in (wanted, average))
    assert [c.pool for c in before.candidates if c.eligible] == [
        c.pool for c in same.candidates if c.eligible
    ] or isinstance(before, Refusal)


@given(any_call(), any_fleet(), deviations, st.sampled_from([*MODELS]), st.floats(0, 40))
def test_a_prompt_that_suits_a_model_better_never_hurts_it(
    wanted: Call, snapshot: FleetSnapshot, deviation: dict[str, float], model: str, more: float
) -> None:
    def scores(of: dict[str, float]) -> dict[str, Candidate]:
        moved = decide(wanted._replace(quality_deviations=of), snapshot, matched(), 1)
        return {each.pool: each for each in moved.candidates}

    start = {model: 0.0} | deviation
    before, after = scores(start), scores(start | {model: start[model] + more})
    for name, candidate in before.items():
        moved = after[name].score_nanousd
        if candidate.model == model:
            assert moved <= candidate.score_nanousd
        else:
            assert moved == candidate.score_nanousd
        assert after[name].eligible is candidate.eligible


def test_a_variant_that_was_judged_is_weighed_by_that_and_others_by_their_model() -> None:
    int8 = warm(pool("int8", model="large", variant="int8", cost_nanousd_per_s=10_000))
    fp16 = warm(pool("fp16", model="large", variant="fp16", cost_nanousd_per_s=20_000))

    def pools(**deviation: float) -> list[str]:
        named = {name.replace("_", "/"): odds for name, odds in deviation.items()}
        wanted = call("large", quality_deviations=named)
        return [each.pool for each in decided(wanted, fleet(int8, fp16)).eligible]

    assert pools() == pools(large=-3.0) == ["int8", "fp16"], "both are their model"
    assert pools(large_int8=-3.0) == ["fp16", "int8"]
    assert pools(large=3.0, large_int8=-3.0) == ["fp16", "int8"]
    assert pools(large=-3.0, large_int8=3.0) == ["int8", "fp16"]
    assert pools(other_int8=-3.0) == ["int8", "fp16"], "a variant of another model"


def variant(model: str, score: float | None) -> Variant:
    quality = {} if score is None else {"law": Validation("law", score, "read", "2026-11-02", 40)}
    return Variant(model, "fp16", Precision.FP16, quality=quality)


@given(st.none() | st.floats(0, 1), ODDS)
def test_a_least_quality_is_held_to_what_was_validated_however_well_a_prompt_suits(
    score: float | None, odds: float
) -> None:
    """Of a variant that was validated well enough, and one that maybe was not."""
    good = pool("good", model="large", declared=variant("large", 0.9), cost_nanousd_per_s=10**6)
    other = pool("other", model="small", declared=variant("small", score))
    wanted = call("small", "large", quality_deviations={"small": odds, "large": -odds})
    decision = decided(
        wanted, fleet(warm(good), warm(other)), Action(use_case="law", quality_min=0.8)
    )
    eligible = {each.pool for each in decision.eligible}
    assert eligible == ({"good", "other"} if score is not None and score >= 0.8 else {"good"})
