"""The founding figures come out of the cost model, and what does not follow is named."""

from __future__ import annotations

import pytest

from routing.economics.claims import figures, flags

EXPECTED = {
    "weights.70b.fp16": 140, "weights.70b.int8": 70, "weights.70b.int4": 35, "training.70b": 560,
    "decode.70b.h100": 47.9, "decode.70b.h200": 68.6, "decode.70b.b200": 114.3,
    "pretraining.usd": 8000, "inference.gpu_h_day": 27.8, "inference.usd_day": 55.56,
    "inference.usd_month": 1667, "breakeven.months": 4.8,
    "per_mtok.h100.low": 5.56, "per_mtok.h100.high": 8.10,
    "per_mtok.l40s.low": 4.44, "per_mtok.l40s.high": 6.94,
    "per_mtok.l40s_x2.low": 8.89, "per_mtok.l40s_x2.high": 13.89,
    "ratio.h100_l40s.low": 1.17, "ratio.h100_l40s.high": 1.25,
    "b200.usd_min.low": 0.367, "b200.usd_min.high": 0.467,
    "margin.b200.low": 0.389, "margin.b200.high": 0.689,
}  # fmt: skip


def test_every_founding_figure_is_computed_within_a_percent() -> None:
    values = {figure.id: figure.value for figure in figures()}
    assert values == pytest.approx(EXPECTED, rel=0.01)


def test_every_figure_says_what_it_was_computed_from() -> None:
    for figure in figures():
        assert figure.unit and len(figure.derivation) > 8 and figure.source


def test_words_of_a_figure_have_the_numbers_that_it_was_computed_from() -> None:
    words = {figure.id: figure.derivation for figure in figures()}
    assert words["pretraining.usd"] == "4,000 GPU-hours * $2.00"
    assert words["inference.gpu_h_day"] == "1,000,000 requests * 0.1 GPU-seconds / 3,600"
    assert words["per_mtok.h100.low"] == "1 * $30 an hour / (1500 tok/s * 3,600 s) * 1,000,000"
    assert words["decode.70b.h100"] == "3350 GB/s / 70 GB of weights a token"


def test_three_claims_do_not_follow() -> None:
    why = {flag.id: flag.why for flag in flags()}
    assert list(why) == ["l40s_2_3x", "l40s_70b_int8_memory", "h100_70b_throughput"]
    assert "1.17 to 1.25 times" in why["l40s_2_3x"]
    assert "2 GPUs" in why["l40s_70b_int8_memory"] and "$8.89" in why["l40s_70b_int8_memory"]
    assert "6 sequences" in why["h100_70b_throughput"]
