"""Servers outside that talk nonsense, lie about what was used, or never end: nothing of it reaches
the caller, who gets the whole answer, or what came of it and an error event; and pays for that."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from billing.types import CallStatus
from gateway.upstream import fake
from tests.gateway.moves.teller import PROMPT, Teller
from tests.gateway.moves.test_continuing import (
    BODIES,
    CHAT,
    CLOSE,
    COMPLETIONS,
    STORY,
    TEXT,
    Bench,
    bench,
    call,
    ends_of,
    outcomes,
    text_of,
)

__all__ = ["bench"]
NONSENSE = {
    "half an event": b'data: {"choices": [{"delta": {"con\n\n',
    "no JSON": b"data: <html>\n\n",
    "another shape": b'data: {"choices": 7}\n\n',
    "content that is no text": b'data: {"choices": [{"index": 0, "delta": {"content": 5}}]}\n\n',
    "no UTF-8": b'data: {"choices": [{"index": 0, "delta": {"content": "\xff"}}]}\n\n',
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
@pytest.mark.parametrize("says_usage", [True, False], ids=["counted", "not counted"])
def test_s10_malformed_event_is_left_out_and_the_whole_answer_delivered(
    bench: Bench, nonsense: bytes, says_usage: bool
) -> None:
    teller = Teller(STORY, adds={3: nonsense}, says_usage=says_usage)
    response, record = call(bench, "anew", teller)
    assert (text_of(CHAT, response), ends_of(response)) == (TEXT, ["whole"])
    assert (outcomes(record), record.output) == (["answered"], len(STORY))


@pytest.mark.parametrize("kind", ["prefix", "anew", "off"])
@pytest.mark.parametrize("path", sorted(BODIES))
def test_s10_text_that_counts_show_to_be_missing_is_asked_for(
    bench: Bench, kind: str, path: str
) -> None:
    teller = Teller(STORY, spoils={3: NONSENSE["half an event"]})
    response, record = call(bench, kind, teller, path)
    if kind == "off":
        assert (text_of(path, response), ends_of(response)) == ("".join(STORY[:3]), ["error"])
        assert record.output == 3
    else:
        assert (text_of(path, response), ends_of(response)) == (TEXT, ["whole"])
        assert outcomes(record) == ["moved", "answered"]
        assert (record.usage.prompt, record.output) == (PROMPT, len(STORY))


def test_s10_whole_answer_with_a_malformed_event_is_whole(bench: Bench) -> None:
    for teller in (
        Teller(STORY, adds={3: NONSENSE["no JSON"]}),
        Teller(STORY, spoils={3: NONSENSE["half an event"]}),
    ):
        response, record = call(bench, "anew", teller, stream=False, max_tokens=2_000)
        assert response.json["choices"][0]["message"]["content"] == TEXT
        assert (record.usage.prompt, record.output) == (PROMPT, len(STORY))


def test_nonsense_without_end_is_bounded(bench: Bench) -> None:
    teller = Teller(STORY, adds={3: NONSENSE["no JSON"] * 500})
    response, record = call(bench, "anew", teller)
    assert (text_of(CHAT, response), ends_of(response)) == (TEXT, ["whole"])
    assert outcomes(record) == ["moved", "answered"]


LIES: dict[str, dict[str, Any]] = {
    "10^12": {"prompt_tokens": 10**12, "completion_tokens": 10**12},
    "negative": {"prompt_tokens": -9, "completion_tokens": -1},
    "no numbers": {"prompt_tokens": "many", "completion_tokens": []},
    "infinite": {"prompt_tokens": 1e308, "completion_tokens": 1},
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_counts_that_nobody_can_believe_are_left_out(
    bench: Bench, lie: dict[str, Any], path: str
) -> None:
    """What arrived is counted instead, for the caller and for our cost."""
    response, record = call(bench, "anew", Teller(STORY, usage=lie), path)
    assert (text_of(path, response), ends_of(response)) == (TEXT, ["whole"])
    assert record.output == record.attempts[0].output == len(STORY)


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_counts_of_a_document_that_nobody_can_believe_are_left_out(
    bench: Bench, lie: dict[str, Any]
) -> None:
    _, outside = bench.gateways["anew"]
    outside.scripts.append(fake.plain_document([TEXT], lie))
    response, record = call(bench, "anew", Teller(STORY), stream=False)
    assert response.json["choices"][0]["message"]["content"] == TEXT
    assert outcomes(record) == ["answered"]
    assert 0 < record.output <= len(TEXT)


def test_counts_that_fall_are_charged_as_the_last_of_them_says(bench: Bench) -> None:
    """Our cost is the most that was ever said."""
    _, outside = bench.gateways["anew"]
    counts = [fake.plain_usage(PROMPT, count) for count in (9, 6)]
    end = [fake.plain_frame("", "stop"), *counts, fake.DONE]
    outside.scripts.append(fake.stream(*map(fake.plain_frame, STORY), *end))
    _, record = call(bench, "anew", Teller(STORY))
    assert (record.output, record.attempts[0].output) == (6, 9)


@pytest.mark.parametrize("path", sorted(BODIES))
def test_what_follows_the_end_is_not_passed_on(bench: Bench, path: str) -> None:
    """Text, another end, and events for ever."""
    piece = fake.plain_text if path == COMPLETIONS else fake.plain_frame
    more = [piece(" and more"), piece("", "length"), *[piece(" x")] * 500]
    _, outside = bench.gateways["anew"]
    outside.scripts.append(fake.stream(*map(piece, STORY), piece("", "stop"), *more))
    response, record = call(bench, "anew", Teller(STORY), path)
    assert (text_of(path, response), ends_of(response)) == (TEXT, ["whole"])
    assert (record.status, record.output) == (CallStatus.ANSWERED, len(STORY))


def test_what_is_held_back_is_not_lost_where_events_follow_for_ever(bench: Bench) -> None:
    _, outside = bench.gateways["anew"]
    first, *others = map(fake.plain_frame, STORY)
    more = [fake.plain_frame(" x")] * 500
    end = fake.plain_frame("", "stop")
    outside.scripts.append(fake.stream(first, NONSENSE["no JSON"], *others, end, *more))
    response, record = call(bench, "anew", Teller(STORY))
    assert (text_of(CHAT, response), ends_of(response)) == (TEXT, ["whole"])
    assert (outcomes(record), record.output) == (["answered"], len(STORY))


@pytest.mark.parametrize(
    "script",
    [
        fake.Script([fake.Send(b"\x1f\x8b\x08 nonsense")], headers=(("content-encoding", "gzip"),)),
        fake.Script([fake.Send(b"<html>")], headers=(("content-type", "text/html"),)),
        fake.Script([], 302, headers=(("location", "http://127.0.0.1:9/v1"),)),
    ],
    ids=["compressed", "a page", "a redirect"],
)
def test_answer_that_is_none_is_an_error_of_no_cost(bench: Bench, script: fake.Script) -> None:
    one, outside = bench.gateways["anew"]
    outside.scripts.extend([script] * 8)
    response, record = call(bench, "anew", Teller(STORY))
    outside.scripts.clear()
    if response.status == 200:
        assert (text_of(CHAT, response), ends_of(response)) == (TEXT, ["whole"])
    else:
        assert response.status in (502, 503, 504) and record.amount_nanousd == 0
    assert one.parts.fleet.in_flight == {}


def test_event_without_end_is_cut_and_the_answer_goes_on(bench: Bench) -> None:
    endless: list[fake.Act] = [fake.Send(b"data: " + b"x" * 2**20)] * 6
    response, record = call(bench, "anew", Teller(STORY, deque([(3, endless)])))
    assert (text_of(CHAT, response), ends_of(response)) == (TEXT, ["whole"])
    assert outcomes(record) == ["moved", "answered"]


def test_text_without_end_is_cut_off_where_it_was_bounded(bench: Bench) -> None:
    _, outside = bench.gateways["anew"]
    outside.scripts.append(fake.stream(*[fake.plain_frame("x")] * 5_000, then=CLOSE))
    response, record = call(bench, "anew", Teller(STORY))
    assert text_of(CHAT, response) == "x" * 64
    assert (record.finish_reason, record.output) == ("length", 64)
