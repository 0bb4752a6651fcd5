"""Who counts a prompt: one tokenizer for all models, and a model's own where money may be held."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.prices.book import Prices
from gateway.call.context import CHARACTERS_PER_TOKEN_MAX
from gateway.call.estimates import OWN_COUNTS_MAX, counted, lengths_of
from gateway.call.open_call import Quote
from gateway.call.request import GeneratingRequest
from gateway.catalog.catalog import Catalog
from gateway.catalog.tokenizers import ByteBound, TokenCounter
from gateway.errors import ApiError
from gateway.wire.bodies.chat import parse_chat
from gateway.wire.bodies.completions import parse_completion
from gateway.wire.bodies.embeddings import parse_embedding
from routing.types import Call, Candidate, CapacityClass, Decision, Model, Tier
from tests.gateway.call.test_context import NARROW, WIDE
from workers.prompts.templates import Message, ToolsUnsupported
from workers.sampling import RENDERING, Rendering


class KnowsNoTools(ByteBound):
    def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        rendering: Rendering = RENDERING,
    ) -> int:
        if tools:
            raise ToolsUnsupported("no", "tools")
        return super().count(messages)


def test_model_that_knows_no_tools_is_passed_over_as_long_as_another_does() -> None:
    tool = {"type": "function", "function": {"name": "f"}}
    said = [{"role": "user", "content": "x"}]
    body = {"model": "auto", "messages": said, "tools": [tool]}
    asked = parse_chat(json.dumps(body).encode())
    counters = {"narrow": KnowsNoTools(), "wide": ByteBound()}
    assert list(lengths_of([NARROW, WIDE], counters, asked, 0).of) == ["wide"]
    with pytest.raises(ApiError) as caught:
        lengths_of([NARROW], counters, asked, 0)
    assert (caught.value.param, caught.value.code) == ("tools", "unsupported_parameter")
    plain = parse_chat(json.dumps(body | {"tools": None}).encode())
    assert len(lengths_of([NARROW, WIDE], counters, plain, 0).of) == 2


class CountsNothing(ByteBound):
    def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        rendering: Rendering = RENDERING,
    ) -> int:
        raise AssertionError("it takes seconds to count so much")

    def count_text(self, text: str) -> int:
        raise AssertionError("it takes seconds to count so much")


FAR = "x" * (NARROW.context_tokens * CHARACTERS_PER_TOKEN_MAX + 1)
SAID = [{"role": "user", "content": FAR[:9]}, {"role": "user", "content": FAR[9:]}]
FAR_BEYOND = [
    parse_chat(json.dumps({"model": "m", "messages": SAID}).encode()),
    parse_completion(json.dumps({"model": "m", "prompt": ["x", FAR]}).encode(), lambda *_: ""),
    parse_embedding(json.dumps({"model": "m", "input": ["x", FAR]}).encode()),
]


@pytest.mark.parametrize("asked", FAR_BEYOND, ids=lambda asked: asked.payload.param)
def test_what_is_far_beyond_the_context_is_not_even_counted(asked: GeneratingRequest) -> None:
    with pytest.raises(ApiError) as caught:
        lengths_of([NARROW], {"narrow": CountsNothing()}, asked, len(FAR))
    assert (caught.value.param, caught.value.code) == (
        asked.payload.param,
        "context_length_exceeded",
    )
    with pytest.raises(AssertionError):
        lengths_of([WIDE], {"wide": CountsNothing()}, asked, len(FAR))


@dataclass(frozen=True)
class Tokenizer:
    """Makes `tokens` of a word, and notes that it was asked. `breaks` makes it refuse a prompt."""

    number: int
    tokens: int
    asked: list[int] = field(compare=False)
    breaks: bool = False
    image_tokens: int | None = None
    vector_size: int | None = None

    def count(
        self,
        messages: Sequence[Message],
        tools: Sequence[Message] = (),
        rendering: Rendering = RENDERING,
    ) -> int:
        raise AssertionError("a completion is text")

    def count_text(self, text: str) -> int:
        self.asked.append(self.number)
        if self.breaks:
            raise ApiError(400, "no", param="prompt")
        return len(text.split()) * self.tokens

    def count_ids(self, ids: Sequence[int]) -> int:
        return len(ids)


PRICES = Prices("pv", "m", "default", False, 1, 1, 1)
kinds = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 3), st.booleans(), st.sampled_from([300, 9000])),
    min_size=1,
    max_size=50,
)


def completion(words: int, max_tokens: int | None) -> GeneratingRequest:
    body = {"model": "auto", "prompt": "word " * words, "max_tokens": max_tokens}
    return parse_completion(json.dumps(body).encode(), lambda model, ids: "")


def as_call(
    request: GeneratingRequest, catalog: Catalog
) -> tuple[Call, Quote, Decision] | ApiError:
    """Steps 2 to 4 of the journey, for models that are all as good."""
    models = list(catalog.models.values())
    try:
        lengths = lengths_of(models, catalog.counters, request, 0)
    except ApiError as refused:
        return refused
    names = tuple(lengths.of)
    sums = {name: sum(of) for name, of in lengths.of.items()}
    call = Call(
        *("req", "org", "proj", "key", "auto", names, Tier.DEFAULT, True, sums),
        output_tokens_max=request.output_tokens_max or 16,
        arrived_s=0.0,
        deadline_s=60.0,
        longest_prompt_tokens=sums,
        estimated=lengths.estimated,
    )
    candidates = tuple(
        Candidate(n, n, "v", CapacityClass.RESERVED, Tier.DEFAULT, True, 0, 0, 0.0, "warm")
        for n in names
    )
    return call, Quote("pv", dict.fromkeys(names, PRICES)), Decision("r", 1, candidates)


def catalog_of(kinds: Sequence[tuple[int, int, bool, int]], asked: list[int]) -> Catalog:
    """A model of each kind: its tokenizer, that one's tokens of a word, whether it is one that
    refuses the prompt, and the model's context. Tokenizer 0 bounds by bytes."""
    models, counters = {}, dict[str, TokenCounter]()
    for place, (number, tokens, breaks, context) in enumerate(kinds):
        models[f"m{place}"] = Model(f"m{place}", None, context, 256, 1, 0.5)
        own = Tokenizer(number, tokens, asked, breaks)
        counters[f"m{place}"] = own if number else ByteBound()
    return Catalog(models=models, counters=counters)


@given(kinds, st.integers(1, 400), st.none() | st.integers(1, 200))
def test_a_model_on_which_a_call_may_end_has_counted_the_prompt_itself(
    kinds: list[tuple[int, int, bool, int]], words: int, max_tokens: int | None
) -> None:
    asked: list[int] = []
    request, catalog = completion(words, max_tokens), catalog_of(kinds, asked)
    shaped = as_call(request, catalog)
    if isinstance(shaped, ApiError):
        return
    try:
        call, quote, decision = counted(*shaped, request, catalog)
    except ApiError:
        assert all(request.payload for _ in kinds)
        return
    asked.clear()
    assert not call.estimated
    assert {c.model for c in decision.eligible} <= set(call.models) == set(quote.prices)
    for name in call.models:
        own = sum(request.payload.prompt_tokens(catalog.counters[name]))
        assert call.prompt_tokens[name] == own == call.longest_prompt_tokens[name]  # type: ignore[index]
    assert decision.chosen.eligible
    assert {c.pool for c in decision.candidates} == {c.pool for c in shaped[2].candidates}


@given(st.integers(1, 50), st.integers(1, 400))
def test_fifty_models_cost_no_fifty_tokenizations(count: int, words: int) -> None:
    """Of contexts that are far longer than the prompt, and tokenizers that take it."""
    asked: list[int] = []
    request = completion(words, 16)
    catalog = catalog_of([(n + 1, 1 + n % 3, False, 100_000) for n in range(count)], asked)
    shaped = as_call(request, catalog)
    assert not isinstance(shaped, ApiError)
    call, _, _ = counted(*shaped, request, catalog)
    assert len(asked) == len(set(asked)) == len(call.models) == min(count, 1 + OWN_COUNTS_MAX)


def test_a_model_that_its_own_tokenizer_rules_out_is_passed_over() -> None:
    asked: list[int] = []
    request = completion(10, 16)
    catalog = catalog_of([(1, 1, False, 9000), (2, 1, True, 9000), (3, 2, False, 9000)], asked)
    shaped = as_call(request, catalog)
    assert not isinstance(shaped, ApiError)
    call, quote, decision = shaped
    last = decision._replace(candidates=tuple(reversed(decision.candidates)))
    call, quote, decision = counted(call, quote, last, request, catalog)
    assert call.models == ("m0", "m2")
    assert [c.model for c in decision.candidates] == ["m2", "m0", "m1"]
    assert (call.prompt_tokens["m0"], call.prompt_tokens["m2"]) == (10, 20)


def test_a_context_that_is_near_is_measured_by_the_model_itself() -> None:
    """By the first tokenizer 200 words fit into 300 tokens of context; by its own they do not."""
    asked: list[int] = []
    request = completion(200, 16)
    catalog = catalog_of([(1, 1, False, 9000), (2, 2, False, 300)], asked)
    lengths = lengths_of(list(catalog.models.values()), catalog.counters, request, 0)
    assert (lengths.of, lengths.estimated) == ({"m0": [200], "m1": [400]}, frozenset())
