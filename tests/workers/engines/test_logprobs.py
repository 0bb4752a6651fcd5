"""Log probabilities over a real checkpoint, beside those of transformers' own plain pass."""

import math
from collections.abc import Callable

import pytest
import torch

from tests.workers.engines.conftest import Ask, Bench
from workers.engines.base import GenerationRequest, TokenLogprobs
from workers.engines.continuous.checkpoint import Checkpoint
from workers.engines.continuous.logprobs import scores
from workers.engines.continuous.outbox import Outbox

TOLERANCE = 1e-4
Benches = Callable[..., Bench]
PROMPTS = ["hello", "tell me a story about a small gate", "who are you? " * 12]


def entries(bench: Bench, request_id: str) -> list[TokenLogprobs]:
    return [each for frame in bench.frames[request_id] for each in frame.logprobs or ()]


def plain_logprobs(
    checkpoint: Checkpoint, request: GenerationRequest, answer: list[int]
) -> torch.Tensor:
    """[answer tokens, vocabulary], by one pass over the whole of it."""
    ids = torch.tensor([[*request.prompt_token_ids, *answer]])
    with torch.inference_mode():
        logits = checkpoint.model(ids).logits[0].double()
    return logits[len(request.prompt_token_ids) - 1 : -1].log_softmax(-1)


def assert_are_plain(
    checkpoint: Checkpoint, request: GenerationRequest, bench: Bench, top: int
) -> None:
    answer = bench.tokens(request.request_id)
    found = entries(bench, request.request_id)
    assert [each.chosen.token_id for each in found] == answer
    for each, wanted in zip(found, plain_logprobs(checkpoint, request, answer), strict=True):
        best = wanted.topk(top)
        assert each.chosen.logprob == pytest.approx(
            wanted[each.chosen.token_id].item(), abs=TOLERANCE
        )
        assert [one.logprob for one in each.top] == pytest.approx(
            best.values.tolist(), abs=TOLERANCE
        )
        for one in each.top:  # by its own figure, for near ties may change places
            assert one.logprob == pytest.approx(wanted[one.token_id].item(), abs=TOLERANCE)


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_they_are_those_of_transformers_whoever_shares_the_batch(
    checkpoint: Checkpoint, bench: Benches, ask: Ask, temperature: float
) -> None:
    fields = {"temperature": temperature, "top_p": 0.9, "logprobs": 5}
    mine = [ask(text, request_id=str(n), seed=n, **fields) for n, text in enumerate(PROMPTS)]
    others = [ask(text, request_id=f"other {text}", temperature=1.0) for text in PROMPTS]
    together, in_turns = bench(), bench(slots=1, staging_rows=1, prefill_tokens_max=8)
    together.run(*mine, *others)
    in_turns.run(*mine)
    for request in mine:
        for each in (together, in_turns):
            assert_are_plain(checkpoint, request, each, top=5)
    assert all(
        frame.logprobs is None
        for request in others
        for frame in together.frames[request.request_id]
    )


def test_they_are_the_same_after_a_cached_prefix(
    checkpoint: Checkpoint, bench: Benches, ask: Ask
) -> None:
    running = bench(block_tokens=4)
    for name in ("first", "second"):
        running.run(ask("the gate and the river " * 4, request_id=name, logprobs=3))
    assert running.frames["second"][-1].usage.cached_input > 0
    request = ask("the gate and the river " * 4, request_id="second")
    assert_are_plain(checkpoint, request, running, top=3)


def test_a_greedy_token_is_its_own_best(bench: Benches, ask: Ask) -> None:
    running = bench()
    running.run(ask("hello", logprobs=1))
    for each in entries(running, "hello"):
        assert [each.chosen] == list(each.top)


def test_the_whole_vocabulary_sums_to_one_and_zero_asks_for_no_company() -> None:
    logits = torch.randn(3, 40, generator=torch.Generator().manual_seed(0)) * 8
    whole, none, unasked = scores(logits, [1, 2, 3], [40, 0, None])
    assert whole is not None and none is not None and unasked is None
    assert sum(math.exp(logprob) for _, logprob in whole.top) == pytest.approx(1, abs=1e-5)
    assert none.top == () and none.token_id == 2 and none.logprob < 0


def test_tokens_that_ride_together_have_an_entry_each(bench: Benches, ask: Ask) -> None:
    running, outbox = bench(), Outbox(interval_s=1.0, now_s=lambda: 0.0)
    sequence = running.add(ask("hello", tokens_max=9, logprobs=2))
    frames = []
    while not running.batch.idle:
        outbox.add(running.batch.step())
        if outbox.due:
            frames += [frame for _, frame in outbox.frames()]
    assert [len(frame.token_ids) for frame in frames] == [1, 8]
    for frame in frames:
        assert frame.logprobs is not None
        assert tuple(each.chosen.token_id for each in frame.logprobs) == frame.token_ids
    assert sequence.frame().logprobs == ()


def test_bytes_of_the_tokens_are_the_text(bench: Benches, ask: Ask) -> None:
    running = bench()
    running.run(ask("hello", logprobs=0, tokens_max=60))
    joined = b"".join(each.chosen.raw for each in entries(running, "hello"))
    assert joined.replace(b"<|end|>", b"").decode() == running.text("hello")
