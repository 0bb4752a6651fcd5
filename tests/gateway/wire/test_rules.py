"""Bodies as structs: msgspec and the checks in OpenAI's words, both made of one declaration, agree
on what is taken, and a mistake is named whichever of the two saw it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict

from gateway.errors import ApiError
from gateway.wire.anthropic.body import MESSAGE
from gateway.wire.bodies.chat_body import CHAT
from gateway.wire.bodies.checks import check_fields, json_object
from gateway.wire.bodies.completions import COMPLETION
from gateway.wire.bodies.embeddings import READER, EmbeddingBody
from gateway.wire.bodies.rules import Reader
from gateway.wire.bodies.tokenize import DETOKENIZE, TOKENIZE
from gateway.wire.responses.body import RESPONSE
from tests.gateway.wire.bodies import values

GOOD = {"model": "vectors", "input": "Once"}
SAID = [{"role": "user", "content": "Once"}]
READERS: dict[str, tuple[Reader[Any], dict[str, Any]]] = {
    "embeddings": (READER, GOOD),
    "tokenize": (TOKENIZE, {"model": "m"}),
    "detokenize": (DETOKENIZE, {"model": "m", "tokens": [1]}),
    "completions": (COMPLETION, {"model": "m", "prompt": "Once"}),
    "chat": (CHAT, {"model": "m", "messages": SAID}),
    "messages": (MESSAGE, {"model": "m", "messages": SAID, "max_tokens": 5}),
    "responses": (RESPONSE, {"model": "m", "input": "Once"}),
}
LIKELY = values | st.sampled_from([0, 1, 5, 1.0, 0.0, True, False, "flex", "float", "u", ["a"]])


@pytest.mark.parametrize("route", READERS)
@settings(max_examples=150)
@given(data=st.data())
def test_a_body_is_read_exactly_where_it_passes_every_check(
    route: str, data: st.DataObject
) -> None:
    reader, good = READERS[route]
    names = st.sampled_from([*reader.checks, "x_unknown"])
    body = json.dumps(good | data.draw(st.dictionaries(names, LIKELY, max_size=4))).encode()
    try:
        fields = json_object(body)
        check_fields(fields, reader.checks, *reader.required)
    except ApiError as mistake:
        with pytest.raises(ApiError) as refused:
            reader.read(body)
        assert refused.value.as_dict() == mistake.as_dict()
        return
    read, extra = reader.read(body)
    assert extra is None
    assert json.dumps(asdict(read), sort_keys=True) == json.dumps(
        dict.fromkeys(reader.checks) | fields, sort_keys=True
    )


def test_a_whole_number_stays_one() -> None:
    read, _ = CHAT.read(
        b'{"model": "m", "messages": [{"role": "user", "content": "Once"}], "top_p": 1}'
    )
    assert isinstance(asdict(read)["top_p"], int)


def test_values_are_listed_in_the_order_of_their_declaration() -> None:
    assert READER.schema["encoding_format"]["enum"] == ["float", "base64"]


def test_what_a_name_is_said_to_be_last_counts() -> None:
    read, _ = READER.read(b'{"model": 5, "input": "Once", "model": "vectors"}')
    assert isinstance(read, EmbeddingBody)
    assert (read.model, read.input) == ("vectors", "Once")


def test_fields_for_servers_outside_are_taken_out_of_the_others() -> None:
    body = json.dumps(GOOD | {"user": "u", "x_extra": 1}).encode()
    read, extra = READER.read(body, lambda model: ("x_extra", "user"))
    assert (read.user, extra) == (None, {"x_extra": 1, "user": "u"})
