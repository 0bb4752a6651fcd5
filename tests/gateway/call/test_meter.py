"""The meter: from frames to usage and the first token's time."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from billing.types import Usage
from gateway.call.frame import Choice, Frame
from gateway.call.meter import Meter

usages = st.builds(
    Usage, input=st.integers(0, 99), cached_input=st.integers(0, 99), output=st.integers(0, 99)
)
CHOICES = 3
pieces = st.builds(
    Choice,
    index=st.integers(0, CHOICES - 1),
    delta=st.sampled_from([{}, {"content": ""}, {"content": "a"}, {"role": "assistant"}]),
    finish_reason=st.none() | st.sampled_from(["stop", "length"]),
)
frames = st.builds(Frame, choices=st.lists(pieces, max_size=2).map(tuple), usage=st.none() | usages)


def metered(*seen: Frame, prompt_tokens: int = 7, choices: int = CHOICES) -> Meter:
    meter = Meter(prompt_tokens, choices)
    for second, frame in enumerate(seen):
        meter.observe(frame, float(second))
    return meter


def text(content: str, usage: Usage | None = None, index: int = 0) -> Frame:
    return Frame((Choice(index=index, delta={"content": content}),), usage=usage)


def finish(reason: str, index: int = 0) -> Frame:
    return Frame((Choice(index=index, finish_reason=reason),))


def test_nothing_arrived_means_nothing_used() -> None:
    assert metered().usage == Usage()


@given(st.lists(frames, min_size=1))
def test_the_last_report_counts_and_each_piece_of_text_since(seen: list[Frame]) -> None:
    at = max((place for place, frame in enumerate(seen) if frame.usage is not None), default=None)
    if at is None:
        return
    since, ended = (
        0,
        {c.index for frame in seen[: at + 1] for c in frame.choices if c.finish_reason},
    )
    for choice in [choice for frame in seen[at + 1 :] for choice in frame.choices]:
        since += choice.has_text and choice.index not in ended
        ended |= {choice.index} if choice.finish_reason else set()
    reported = seen[at].usage
    assert reported is not None
    assert metered(*seen).usage == reported + Usage(output=since)


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
    assert (
        metered(
            Frame((Choice(delta={"role": "assistant"}),)), text(""), text("a"), text("b")
        ).first_token_s
        == 2
    )


def test_first_token_of_a_call_that_embeds_is_its_first_vector() -> None:
    vector = Frame((Choice(embedding="AACAPw==", finish_reason="stop"),))
    assert metered(Frame(), vector).first_token_s == 1


def test_plain_text_counts_over_all_choices_until_usage_comes() -> None:
    seen = [text("a"), text("b", index=1), text("c", index=1)]
    assert metered(*seen).usage == Usage(input=7, output=3)
    assert metered(*seen, text("", Usage(input=9, output=8))).usage == Usage(input=9, output=8)


def test_answer_is_complete_once_every_choice_has_finished() -> None:
    two = [finish("stop"), finish("length", index=2)]
    assert not metered(*two).is_complete
    assert metered(*two).finish_reason is None
    assert metered(*two, finish("stop", index=1)).is_complete


def test_finish_reason_of_several_choices_is_the_first_that_is_not_ordinary() -> None:
    ends = [finish("stop"), finish("length", index=2), finish("stop", index=1)]
    assert metered(*ends).finish_reason == "length"
    assert metered(finish("stop"), choices=1).finish_reason == "stop"


def test_own_usage_replaces_the_estimate_as_soon_as_it_comes() -> None:
    meter = metered(text("a"), text("b", Usage(input=3, cached_input=4, output=9)))
    assert meter.usage.output == 9


def test_output_with_a_frame_is_what_it_will_be_once_observed() -> None:
    """In every state: before and after reports, and after the end of some choices or of all."""
    reached: Counter[str] = Counter()

    @settings(max_examples=500)
    @given(st.lists(frames, max_size=8), frames)
    def law(seen: list[Frame], frame: Frame) -> None:
        meter = metered(*seen)
        reported = any(frame.usage is not None for frame in seen)
        reached["complete"] += meter.is_complete
        reached["reported"] += reported and frame.usage is None and frame.texts > 0
        reached["complete, and another report"] += meter.is_complete and frame.usage is not None
        foreseen = meter.output_with(frame)
        completes = meter.completes_with(frame)
        meter.observe(frame, 0.0)
        assert (meter.usage.completion, meter.is_complete) == (foreseen, completes)

    law()
    assert len(reached) == 3 and min(reached.values()) >= 5, reached


@given(st.lists(frames), st.lists(frames, max_size=2))
def test_no_report_of_our_cost_is_lost(seen: list[Frame], not_taken: list[Frame]) -> None:
    meter = metered(*seen)
    for frame in not_taken:
        meter.overhear(frame)
    for said in [frame.usage for frame in [*seen, *not_taken] if frame.usage is not None]:
        assert meter.reported.prompt >= said.prompt
        assert meter.reported.completion >= said.completion
    assert meter.reported.completion >= meter.usage.completion


def test_of_two_reports_of_one_size_the_later_says_what_it_is_made_of() -> None:
    first = Usage(input=10, output=5)
    later = Usage(input=4, cached_input=6, output=3, reasoning=2)
    assert metered(text("a", first), text("b", later)).reported == later


def test_text_behind_the_end_of_its_choice_is_nobodys() -> None:
    meter = metered(text("a"), finish("stop"), text("b"), choices=2)
    assert meter.usage.output == 1
