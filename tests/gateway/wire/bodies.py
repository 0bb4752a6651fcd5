"""Bodies of every kind, and what must become of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import strategies as st

from gateway.call.request import GeneratingRequest
from gateway.errors import ApiError
from gateway.wire.sse import DONE, SseDecoder

Parse = Callable[[bytes], GeneratingRequest]

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def refused(parse: Parse, body: bytes | dict[str, Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        parse(body if isinstance(body, bytes) else json.dumps(body).encode())
    assert caught.value.status == 400
    return caught.value


def assert_taken_or_refused(parse: Parse, body: bytes | dict[str, Any]) -> None:
    try:
        request = parse(body if isinstance(body, bytes) else json.dumps(body).encode())
        assert request.payload.choices >= 1
    except ApiError as error:
        assert error.status == 400
        json.loads(error.body())


def payloads(events: Iterable[bytes]) -> list[bytes]:
    """What the events of a stream say, the end mark left out."""
    return [payload for payload in SseDecoder().feed(b"".join(events)) if payload != DONE]
