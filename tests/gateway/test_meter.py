"""The meter: from frames to usage and the first token's time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from billing.types import Usage
from gateway.meter import Frame, Meter

usages = st.builds(
    Usage, input=st.integers(0, 99), cached_input=st.integers(0, 99), output=st.integers(0, 99)
)
frames = st.builds(
    Frame,
    delta=st.sampled_from([{}, {"content": ""}, {"content": "a"}, {"role": "assistant"}]),
    finish_reason=st.none() | st.sampled_from(["stop", "length"]),
    usage=st.none() | usages,
)


def metered(*seen: Frame, prompt_tokens: int = 7) -> Meter:
    meter = Meter(prompt_tokens)
    for second, frame in enumerate(seen):
        meter.observe(frame, float(second))
    return meter


def text(content: str, usage: Usage | None = None) -> Frame:
    return Frame({"content": content}, usage=usage)


def test_nothing_arrived_means_nothing_used() -> None:
    assert metered().usage == Usage()


@given(st.lists(frames, min_size=1))
def test_the_last_reported_usage_counts_however_many_deltas_came(seen: list[Frame]) -> None:
    meter = metered(*seen)
    reported = [frame.usage for frame in seen if frame.usage is not None]
    if reported:
        assert meter.usage == reported[-1]


@given(st.lists(st.text(), min_size=1))
def test_without_a_report_each_content_delta_is_one_estimated_token(texts: list[str]) -> None:
    meter = metered(*map(text, texts))
    assert meter.usage == Usage(input=7, output=sum(map(bool, texts)))


@given(st.lists(frames))
def test_observing_again_gives_the_same(seen: list[Frame]) -> None:
    one, other = metered(*seen), metered(*seen)
    assert (one.usage, one.first_token_s, one.finish_reason) == (
        other.usage,
        other.first_token_s,
        other.finish_reason,
    )


def test_first_token_is_the_first_text_and_not_the_role() -> None:
    assert metered(Frame({"role": "assistant"}), text(""), text("a"), text("b")).first_token_s == 2


def test_own_usage_replaces_the_estimate_as_soon_as_it_comes() -> None:
    meter = metered(text("a"), text("b", Usage(input=3, cached_input=4, output=9)))
    assert meter.usage.output == 9


@given(st.lists(frames), frames)
def test_output_with_a_frame_is_what_it_will_be_once_observed(
    seen: list[Frame], frame: Frame
) -> None:
    meter = metered(*seen)
    if meter.finish_reason is None and meter._reported is None:
        foreseen = meter.output_with(frame)
        meter.observe(frame, 0.0)
        assert meter.usage.output == foreseen
