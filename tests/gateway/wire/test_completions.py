"""`/v1/completions`: what a body may say, the exact refusals, and the shapes of answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types import Completion

from billing.types import Usage
from gateway.call.frame import Choice, Likely, Logprobs, Scored
from gateway.call.request import GeneratingRequest
from gateway.catalog.tokenizers import ByteBound
from gateway.errors import bad_request
from gateway.wire.answer import AnswerHead
from gateway.wire.bodies.completions import COMPLETION, CompletionForm, Prompts, parse_completion
from gateway.wire.whole_choice import WholeChoice
from tests.gateway.wire.bodies import assert_taken_or_refused, payloads, refused, values

GOOD = {"model": "tale", "prompt": "Once"}
HEAD = AnswerHead("1", 1_790_000_000, "tale", "default")


def text_of(model: str, ids: Sequence[int]) -> str:
    if model != "tale":
        raise bad_request("no tokenizer", "model", "tokenizer_not_available")
    return "".join(map(chr, ids))


PARSE = partial(parse_completion, text_of=text_of)


def parse(**changes: Any) -> GeneratingRequest:
    return PARSE(json.dumps(GOOD | changes).encode())


def wanted(**changes: Any) -> Prompts:
    found = parse(**changes).payload
    assert isinstance(found, Prompts)
    return found


def echoes(**changes: Any) -> tuple[str, ...]:
    form = parse(echo=True, **changes).form
    assert isinstance(form, CompletionForm)
    return form.echoes


def test_prompts_of_every_kind_become_several() -> None:
    assert wanted().prompts == ("Once",)
    assert wanted(prompt=["a", "b"]).prompts == ("a", "b")
    assert wanted(prompt=[1, 2]).prompts == ((1, 2),)
    assert wanted(prompt=[[1], [2, 3]]).prompts == ((1,), (2, 3))


WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    ({"model": None}, "model", "missing_required_parameter"),
    ({"prompt": None}, "prompt", "missing_required_parameter"),
    ({"prompt": ""}, "prompt", "empty_string"),
    ({"prompt": []}, "prompt", "empty_array"),
    ({"prompt": ["a", ""]}, "prompt[1]", "empty_string"),
    ({"prompt": [[1], []]}, "prompt[1]", "empty_array"),
    ({"prompt": 5}, "prompt", "invalid_type"),
    ({"prompt": ["a", [1]]}, "prompt", "invalid_type"),
    ({"prompt": [1, "a"]}, "prompt", "invalid_type"),
    ({"prompt": [True]}, "prompt", "invalid_type"),
    ({"prompt": [-1]}, "prompt", "invalid_type"),
    ({"prompt": [[1], ["a"]]}, "prompt[1]", "invalid_type"),
    ({"prompt": [[1], [2**31]]}, "prompt[1]", "invalid_type"),
    ({"prompt": ["a"] * 129}, "prompt", "array_above_max_length"),
    ({"prompt": ["a"] * 43, "n": 3}, "n", "invalid_value"),
    ({"prompt": [1, 2], "model": "auto"}, "prompt", "invalid_value"),
    ({"n": 0}, "n", "invalid_value"),
    ({"n": 129}, "n", "invalid_value"),
    ({"best_of": 2}, "best_of", "unsupported_parameter"),
    ({"best_of": 1, "n": 2}, "best_of", "unsupported_parameter"),
    ({"best_of": 21}, "best_of", "invalid_value"),
    ({"max_tokens": 0}, "max_tokens", "invalid_value"),
    ({"logprobs": 6}, "logprobs", "invalid_value"),
    ({"logprobs": True}, "logprobs", "invalid_type"),
    ({"echo": 1}, "echo", "invalid_type"),
    ({"echo": True, "truncate_prompt_tokens": 1}, "echo", "invalid_parameter_combination"),
    ({"echo": True, "prompt": [1], "model": "far"}, "model", "tokenizer_not_available"),
    ({"suffix": "x"}, "suffix", "unsupported_parameter"),
    ({"logit_bias": {"5": "much"}}, "logit_bias.5", "invalid_type"),
    ({"presence_penalty": 3}, "presence_penalty", "invalid_value"),
    ({"logit_bias": {"5": 1}, "model": "auto"}, "logit_bias", "invalid_value"),
    ({"stream_options": {"include_usage": True}}, "stream_options", None),
    (
        {"stream": True, "stream_options": {"include_obfuscation": True}},
        "stream_options.include_obfuscation",
        "unsupported_parameter",
    ),
    ({"service_tier": "gold"}, "service_tier", "invalid_value"),
    ({"messages": []}, "messages", None),
]


@pytest.mark.parametrize(("changes", "param", "code"), WRONG, ids=lambda value: str(value)[:50])
def test_wrong_field_is_named_with_its_code(
    changes: dict[str, Any], param: str, code: str | None
) -> None:
    error = refused(PARSE, GOOD | changes)
    assert (error.param, error.code) == (param, code)


def test_servers_outside_are_told_who_asks_and_ours_are_not() -> None:
    assert wanted(user="u").outside_body(9)["user"] == "u"
    assert "user" not in wanted(user="u").own_body(9)
    assert "user" not in wanted().outside_body(9)


def test_neutral_values_pass() -> None:
    neutral = {"suffix": None, "logit_bias": {}, "presence_penalty": 0, "frequency_penalty": 0.0}
    assert wanted(**neutral, best_of=2, n=2, user="u").n == 2
    assert parse(suffix="").output_tokens_max == 16, "what OpenAI documents"


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(sorted(COMPLETION.checks)), values, max_size=3))
def test_any_value_in_any_field_is_taken_or_refused(changes: dict[str, Any]) -> None:
    assert_taken_or_refused(PARSE, GOOD | changes)


def test_every_prompt_is_counted_and_arrays_by_their_length() -> None:
    assert wanted(prompt=[[1, 2], [3]]).prompt_tokens(ByteBound()) == [2, 1]
    assert wanted(prompt=["é", "e"]).prompt_tokens(ByteBound()) == [10, 9]


def test_own_workers_get_a_list_and_outside_what_openai_takes() -> None:
    asked = wanted(n=2, logprobs=0, seed=1, echo=False)
    assert asked.own_body(7) == {
        "prompt": ("Once",),
        "max_tokens": 7,
        "n": 2,
        "logprobs": 0,
        "seed": 1,
    }
    outside = asked.outside_body(7)
    assert (outside["prompt"], outside["stream"]) == ("Once", True)
    assert "logprobs" not in wanted().outside_body(7)
    assert wanted(prompt=["a", "b"]).outside_body(7)["prompt"] == ("a", "b")


# --- answers -------------------------------------------------------------------------------------


def test_echo_stands_before_every_choice_of_its_prompt() -> None:
    assert echoes(prompt=["a", "b"], n=2) == ("a", "a", "b", "b")
    assert echoes(prompt=[[72, 105], [33]]) == ("Hi", "!")


def test_whole_answer_is_what_the_openai_client_reads() -> None:
    form = CompletionForm(("Once", "Once"), scored=False)
    choices = [WholeChoice(0), WholeChoice(1)]
    choices[0].add(Choice(delta={"content": " upon"}, finish_reason="stop"))
    choices[1].add(Choice(index=1, text=" more"))
    raw = form.whole(HEAD, choices, Usage(input=3, output=2), "0.001")
    found = Completion.model_validate_json(raw, strict=True)
    assert (found.id, found.object) == ("cmpl-1", "text_completion")
    assert [c.text for c in found.choices] == ["Once upon", "Once more"]
    assert [c.finish_reason for c in found.choices] == ["stop", "length"], "the second was cut"
    assert found.usage is not None and found.usage.total_tokens == 5


@pytest.mark.parametrize("echo", ["", "Once"])
def test_chunks_have_the_shape_of_whole_answers(echo: str) -> None:
    """But for `finish_reason`, which is null until the end, as OpenAI sends it."""
    chunks = CompletionForm((echo, echo), scored=False).chunks(HEAD, includes_usage=True)
    events = [
        *chunks.opening({"pool": "p"}),
        *chunks.piece(Choice(index=1, text=" upon"), None),
        *chunks.piece(Choice(text=""), None),
        *chunks.piece(Choice(text=" a", finish_reason="stop"), None),
        chunks.end(Usage(input=3, output=2), "0.001", {"pool": "p"}),
    ]
    raws = payloads(events)
    *found, last = map(json.loads, raws)
    texts = [(choice["index"], choice["text"]) for chunk in found for choice in chunk["choices"]]
    opening = [(0, echo), (1, echo)] if echo else [(0, "")]
    assert texts == [*opening, (1, " upon"), (0, " a")]
    assert found[0]["sluice"] == {"pool": "p"}
    ends = [chunk["choices"][0]["finish_reason"] for chunk in found]
    assert ends == [None] * (len(found) - 1) + ["stop"]
    assert all(chunk["usage"] is None for chunk in found)
    Completion.model_validate_json(raws[-1], strict=True)
    assert last["choices"] == [] and last["usage"]["total_tokens"] == 5


def test_stream_that_has_nothing_to_say_first_opens_with_its_text() -> None:
    chunks = CompletionForm(("",), scored=False).chunks(HEAD, includes_usage=False)
    assert list(chunks.opening(None)) == []


def test_log_probabilities_have_the_shape_of_plain_completions() -> None:
    pieces = [
        Logprobs(content=[Scored("Hi", -0.5, list(b"Hi"), [Likely("Ho", -0.1, list(b"Ho"))])]),
        Logprobs(content=[Scored("\ufffd", -0.1, [0xE2, 0x82]), Scored("\ufffd", -0.2, [0xAC])]),
        Logprobs(content=[Scored("!", -0.3)]),
    ]
    choice = WholeChoice(0)
    for piece in pieces:
        choice.add(Choice(text="x", logprobs=piece))
    form = CompletionForm(("",), scored=True)
    whole = json.loads(form.whole(HEAD, [choice], Usage(), "0"))["choices"][0]["logprobs"]
    assert whole == {
        "tokens": ["Hi", "bytes:\\xe2\\x82", "bytes:\\xac", "!"],
        "token_logprobs": [-0.5, -0.1, -0.2, -0.3],
        "top_logprobs": [
            {"Ho": -0.1, "Hi": -0.5},
            {"bytes:\\xe2\\x82": -0.1},
            {"bytes:\\xac": -0.2},
            {"!": -0.3},
        ],
        "text_offset": [0, 2, 2, 3],
    }
    chunks = form.chunks(HEAD, includes_usage=False)
    streamed = [
        json.loads(raw)["choices"][0]["logprobs"]
        for piece in pieces
        for raw in payloads(chunks.piece(Choice(text="x", logprobs=piece), None))
    ]
    joined = {key: [v for shape in streamed for v in shape[key]] for key in whole}
    assert joined == whole


def test_log_probabilities_that_come_in_that_shape_are_passed_on() -> None:
    theirs = Logprobs(
        tokens=["a"], token_logprobs=[-1.0], top_logprobs=[{"a": -1.0}], text_offset=[0]
    )
    chunks = CompletionForm(("",), scored=True).chunks(HEAD, False)
    [raw] = payloads(chunks.piece(Choice(text="a", logprobs=theirs), None))
    assert json.loads(raw)["choices"][0]["logprobs"]["text_offset"] == [0]
