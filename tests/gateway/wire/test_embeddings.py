"""`/v1/embeddings`: what a body may say, the exact refusals, and vectors in both formats."""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types import CreateEmbeddingResponse

from billing.types import Usage
from gateway.call.frame import Choice
from gateway.call.request import GeneratingRequest
from gateway.catalog.tokenizers import ByteBound
from gateway.errors import ApiError
from gateway.wire.answer import AnswerHead
from gateway.wire.bodies.embeddings import READER, EmbeddingForm, Inputs, parse_embedding
from gateway.wire.whole_choice import WholeChoice
from tests.gateway.wire.bodies import assert_taken_or_refused, refused, values

GOOD = {"model": "vectors", "input": "Once"}
HEAD = AnswerHead("1", 1_790_000_000, "vectors", "default")


def parse(**changes: Any) -> GeneratingRequest:
    return parse_embedding(json.dumps(GOOD | changes).encode())


WRONG: list[tuple[dict[str, Any], str, str | None]] = [
    ({"model": None}, "model", "missing_required_parameter"),
    ({"input": None}, "input", "missing_required_parameter"),
    ({"input": ""}, "input", "empty_string"),
    ({"input": []}, "input", "empty_array"),
    ({"input": ["a", ""]}, "input[1]", "empty_string"),
    ({"input": [[1], []]}, "input[1]", "empty_array"),
    ({"input": {"text": "x"}}, "input", "invalid_type"),
    ({"input": ["a"] * 2049}, "input", "array_above_max_length"),
    ({"input": [5], "model": "auto"}, "input", "invalid_value"),
    ({"encoding_format": "int8"}, "encoding_format", "invalid_value"),
    ({"dimensions": 0}, "dimensions", "invalid_value"),
    ({"dimensions": 1.5}, "dimensions", "invalid_type"),
    ({"user": 5}, "user", "invalid_type"),
    ({"stream": True}, "stream", None),
]


@pytest.mark.parametrize(("changes", "param", "code"), WRONG, ids=lambda value: str(value)[:50])
def test_wrong_field_is_named_with_its_code(
    changes: dict[str, Any], param: str, code: str | None
) -> None:
    error = refused(parse_embedding, GOOD | changes)
    assert (error.param, error.code) == (param, code)


def test_servers_outside_are_told_who_asks_and_ours_are_not() -> None:
    assert parse(user="u").payload.outside_body(0)["user"] == "u"
    assert "user" not in parse(user="u").payload.own_body(0)
    assert "user" not in parse().payload.outside_body(0)


class _Short(ByteBound):
    vector_size = 384


def test_longer_vector_than_the_model_has_is_refused_before_any_worker_is_started() -> None:
    inputs = parse(dimensions=385).payload
    with pytest.raises(ApiError) as refused:
        inputs.prompt_tokens(_Short())
    assert (refused.value.status, refused.value.param) == (400, "dimensions")
    assert parse(dimensions=384).payload.prompt_tokens(_Short()) == inputs.prompt_tokens(
        ByteBound()
    )


@settings(max_examples=150)
@given(st.dictionaries(st.sampled_from(sorted(READER.checks)), values, max_size=3))
def test_any_value_in_any_field_is_taken_or_refused(changes: dict[str, Any]) -> None:
    assert_taken_or_refused(parse_embedding, GOOD | changes)


def test_most_inputs_that_may_be_are_taken() -> None:
    assert parse(input=["a"] * 2048).payload.choices == 2048
    assert parse(input=[[1]] * 2048).payload.choices == 2048


def test_no_output_is_asked_for_and_nothing_streamed() -> None:
    request = parse(service_tier="flex")
    assert (request.output_tokens_max, request.streaming, request.service_tier) == (0, None, "flex")


def test_own_workers_and_outside_are_asked_in_their_own_words() -> None:
    asked = parse(input=[[1, 2]], dimensions=8, user="u").payload
    assert asked == Inputs(((1, 2),), 8, "u")
    assert asked.own_body(0) == {"input": ((1, 2),), "dimensions": 8}
    assert asked.outside_body(0) == {
        "input": ((1, 2),),
        "encoding_format": "base64",
        "dimensions": 8,
        "user": "u",
    }
    assert "dimensions" not in parse().payload.outside_body(0)


@given(st.lists(st.lists(st.floats(width=32, allow_nan=False), min_size=1), min_size=1, max_size=4))
def test_vectors_are_exact_in_both_formats(vectors: list[list[float]]) -> None:
    packed = [b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
    choices = [WholeChoice(index) for index in range(len(vectors))]
    for index in reversed(range(len(vectors))):
        choices[index].add(Choice(index=index, embedding=packed[index], finish_reason="stop"))

    def answered(as_base64: bool) -> Any:
        return json.loads(EmbeddingForm(as_base64).whole(HEAD, choices, Usage(input=3), "0.001"))

    assert [d["embedding"] for d in answered(True)["data"]] == packed, "passed on as it came"
    found = answered(False)
    finite = [v for v in vectors if all(abs(x) != float("inf") for x in v)]
    assert [d["embedding"] for d in found["data"] if None not in d["embedding"]] == finite
    assert [d["index"] for d in found["data"]] == list(range(len(vectors)))
    assert found["usage"] == {"prompt_tokens": 3, "total_tokens": 3, "cost": "0.001"}


def test_answer_is_what_the_openai_client_reads() -> None:
    choice = WholeChoice(0)
    choice.add(Choice(embedding=b64encode(struct.pack("<2f", 0.5, -1.0)).decode()))
    raw = EmbeddingForm(as_base64=False).whole(HEAD, [choice], Usage(input=3), "0.001")
    found = CreateEmbeddingResponse.model_validate_json(raw, strict=True)
    assert (found.object, found.data[0].object, found.model) == ("list", "embedding", "vectors")
    assert found.data[0].embedding == [0.5, -1.0]
