"""The batch over a real checkpoint, stepped by hand: nothing here depends on time."""

from collections.abc import Callable
from dataclasses import replace

import torch
from msgspec import structs

from tests.workers.engines.conftest import Ask, Bench
from workers.engines.base import FinishReason, GenerationRequest
from workers.engines.continuous.checkpoint import Checkpoint

NEAR_TIE = 0.01  # logits this close may order differently in another shape of batch
PROMPTS = [
    "hello",
    "tell me a story about a small gate and the river behind it",
    "why does the water rise in spring? " * 6,
    "a",
    "name three birds",
    "what did the miller say to his daughter when the wheel stopped?",
    "one two three four five six seven eight nine ten " * 3,
    "who are you?",
]
Benches = Callable[..., Bench]


def plain_answer(checkpoint: Checkpoint, request: GenerationRequest) -> list[int]:
    """What transformers' own `generate` answers, alone."""
    prompt = torch.tensor([request.prompt_token_ids])
    answer = checkpoint.model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=request.tokens_max,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    return list(answer[0, prompt.shape[1] :].tolist())


def assert_same_answer(
    checkpoint: Checkpoint, request: GenerationRequest, ours: list[int], theirs: list[int]
) -> None:
    pairs = zip(ours, theirs, strict=True)
    first = next((n for n, (mine, other) in enumerate(pairs) if mine != other), None)
    if first is None:
        return
    ids = torch.tensor([[*request.prompt_token_ids, *theirs[:first]]])
    with torch.inference_mode():
        logits = checkpoint.model(ids).logits[0, -1]
    gap = abs(logits[ours[first]] - logits[theirs[first]]).item()
    assert gap < NEAR_TIE, f"token {first} differs with a gap of {gap}"


def test_greedy_answers_are_those_of_generate_whoever_shares_the_batch(
    checkpoint: Checkpoint, bench: Benches, ask: Ask
) -> None:
    requests = [ask(text, request_id=str(n)) for n, text in enumerate(PROMPTS)]
    together, in_turns = bench(slots=8), bench(slots=2, staging_rows=1, prefill_tokens_max=16)
    together.run(*requests)
    in_turns.run(*requests)
    for request in requests:
        wanted = plain_answer(checkpoint, request)
        for each in (together, in_turns):
            assert_same_answer(checkpoint, request, each.tokens(request.request_id), wanted)


def test_eight_callers_share_the_steps_of_one(bench: Benches, ask: Ask) -> None:
    alone, together = bench(), bench()
    alone.run(ask("hello"))
    together.run(*(ask("hello", request_id=str(n), cache_salt=str(n)) for n in range(8)))
    steps_alone = alone.batch.stats().decode_steps_total
    steps_together = together.batch.stats().decode_steps_total
    assert steps_alone == 23  # the first of the 24 tokens comes with the prompt
    assert steps_together <= steps_alone + 8  # they join within a few steps
    assert together.batch.stats().tokens_out_total == 8 * 24


def test_the_time_of_a_batch_is_that_of_its_sequences(bench: Benches, ask: Ask) -> None:
    """Whoever joins, prefills for long, leaves early or is taken away."""
    running = bench(slots=4, staging_rows=2, prefill_tokens_max=16)
    sequences = [running.add(ask(text, request_id=text)) for text in PROMPTS]
    for _ in range(9):
        running.step()
    assert all(sequence.busy_us > 0 for sequence in sequences if sequence.computed)
    running.batch.remove(sequences[1])
    while not running.batch.idle:
        running.step()
    shared_us = sum(sequence.busy_us for sequence in sequences)
    assert shared_us == running.batch.stats().busy_us_total > 0
    for sequence in (sequences[0], *sequences[2:]):
        frames = running.frames[sequence.request.request_id]
        told = [frame.usage.busy_us for frame in frames]
        assert told == sorted(told) and told[-1] == sequence.busy_us


def test_a_late_joiner_speaks_before_the_earlier_ones_finish(bench: Benches, ask: Ask) -> None:
    running = bench(slots=8)
    for number in range(4):
        running.add(ask("hello", request_id=str(number), tokens_max=40))
    for _ in range(10):
        running.step()
    running.add(ask("who is late?", request_id="late"))
    running.step()
    assert len(running.frames["late"]) == 1
    assert all(running.frames[str(n)][-1].finish_reason is None for n in range(4))


def test_running_streams_gain_a_token_every_step_while_a_long_prompt_is_prefilled(
    bench: Benches, ask: Ask
) -> None:
    running = bench(prefill_tokens_max=32)
    running.add(ask("hello", request_id="early", tokens_max=60))
    running.step()
    long = ask("river " * 200, request_id="long")
    running.add(long)
    steps = 0
    while not running.frames["long"]:
        running.step()
        steps += 1
    assert steps == -(-len(long.prompt_token_ids) // 32)
    assert len(running.frames["early"]) == 1 + steps


def test_a_shared_prefix_is_counted_exactly_and_changes_no_answer(
    checkpoint: Checkpoint, bench: Benches, ask: Ask
) -> None:
    running = bench(block_tokens=16)
    first = ask("the gate and the river " * 8 + "first", request_id="first")
    second = ask("the gate and the river " * 8 + "second", request_id="second")
    running.run(first)
    running.run(second)
    usage = running.frames["second"][-1].usage
    pairs = zip(first.prompt_token_ids, second.prompt_token_ids, strict=False)
    shared = next(n for n, (mine, other) in enumerate(pairs) if mine != other)
    assert usage.cached_input == shared // 16 * 16 > 0
    assert usage.input + usage.cached_input == len(second.prompt_token_ids)
    assert running.frames["first"][-1].usage.cached_input == 0
    assert_same_answer(
        checkpoint, second, running.tokens("second"), plain_answer(checkpoint, second)
    )


def test_an_answer_is_cached_for_the_next_turn(bench: Benches, ask: Ask) -> None:
    running = bench(block_tokens=8)
    first = ask("hello", request_id="first", tokens_max=32)
    running.run(first)
    turn = (*first.prompt_token_ids, *running.tokens("first"), 5, 6, 7)
    running.run(structs.replace(first, request_id="second", prompt_token_ids=turn))
    held = len(first.prompt_token_ids) + 31  # the last token's state was never computed
    assert running.frames["second"][-1].usage.cached_input == held // 8 * 8


def test_another_tenant_shares_no_prefix(bench: Benches, ask: Ask) -> None:
    running = bench()
    running.run(ask("river " * 40, request_id="a", cache_salt="org_a"))
    running.run(ask("river " * 40, request_id="b", cache_salt="org_b"))
    running.run(ask("river " * 40, request_id="c", cache_salt="org_a"))
    cached = [running.frames[name][-1].usage.cached_input for name in "abc"]
    assert cached[:2] == [0, 0]
    assert cached[2] > 0


def test_a_repeated_prompt_still_computes_its_last_token(bench: Benches, ask: Ask) -> None:
    running = bench(block_tokens=1)
    running.run(ask("hello", request_id="a"))
    running.run(ask("hello", request_id="b"))
    assert running.frames["b"][-1].usage.input == 1
    assert running.tokens("a") == running.tokens("b")


def test_a_removed_sequence_gains_nothing_more_and_leaves_its_row(bench: Benches, ask: Ask) -> None:
    running = bench(slots=3, staging_rows=1)
    sequences = [running.add(ask("hello", request_id=str(n))) for n in range(4)]
    for _ in range(5):
        running.step()
    assert running.batch.stats().running == 3
    gained = len(running.frames["0"])
    running.batch.remove(sequences[0])
    assert (running.batch.stats().running, running.batch.stats().queued) == (2, 1)
    while not running.batch.idle:
        running.step()
    assert len(running.frames["0"]) == gained
    assert [len(running.tokens(str(n))) for n in (1, 2, 3)] == [24, 24, 24]
    assert running.tokens("1") == running.tokens("2") == running.tokens("3")


def test_removing_reaches_waiting_and_staged_sequences_too(bench: Benches, ask: Ask) -> None:
    running = bench(slots=2, staging_rows=2, prefill_tokens_max=8)
    sequences = [running.add(ask("river " * 30, request_id=str(n))) for n in range(3)]
    running.step()
    assert (running.batch.stats().running, running.batch.stats().queued) == (2, 1)
    for sequence in sequences:
        running.batch.remove(sequence)
        running.batch.remove(sequence)  # twice is as good as once
    assert running.batch.idle
    assert running.batch.stats().kv_tokens_used == 0


def test_usage_counts_every_token_once_and_position_follows(bench: Benches, ask: Ask) -> None:
    running = bench()
    request = ask("hello")
    running.run(request)
    frames = running.frames["hello"]
    assert [frame.position for frame in frames] == list(range(1, 25))
    assert all(frame.usage.input == len(request.prompt_token_ids) for frame in frames)
    assert [frame.finish_reason for frame in frames] == [None] * 23 + [FinishReason.LENGTH]


def test_any_of_several_end_tokens_ends_the_answer_and_is_counted(
    checkpoint: Checkpoint, bench: Benches, ask: Ask
) -> None:
    plain = bench()
    plain.run(ask("hello"))
    third = plain.tokens("hello")[2]
    ending = Bench(replace(checkpoint, eos_token_ids=frozenset({third, 99_999})))
    ending.run(ask("hello", ignore_eos=False))
    frames = ending.frames["hello"]
    first_seen = plain.tokens("hello").index(third)
    assert frames[-1].finish_reason is FinishReason.STOP
    assert frames[-1].usage.output == len(frames) == first_seen + 1
    assert ending.text("hello") == checkpoint.decode(plain.tokens("hello")[:first_seen])


def test_a_stop_string_ends_the_answer_and_is_not_in_it(bench: Benches, ask: Ask) -> None:
    plain = bench()
    plain.run(ask("hello"))
    whole = plain.text("hello")
    stop = whole[len(whole) // 2 : len(whole) // 2 + 3]
    running = bench()
    running.run(ask("hello", stop=(stop,)))
    assert running.text("hello") == whole[: whole.index(stop)]
    assert running.frames["hello"][-1].finish_reason is FinishReason.STOP


def test_the_text_of_frames_is_the_decoding_of_their_tokens(
    checkpoint: Checkpoint, bench: Benches, ask: Ask
) -> None:
    running = bench()
    requests = [ask("hello", request_id=str(seed), seed=seed, temperature=2.0) for seed in range(8)]
    running.run(*requests)
    for request in requests:
        whole, joined = (
            checkpoint.decode(running.tokens(request.request_id)),
            running.text(request.request_id),
        )
        assert whole.startswith(joined)
        assert set(whole[len(joined) :]) <= {"\ufffd"}


def test_a_seed_decides_the_draws_whoever_shares_the_batch(bench: Benches, ask: Ask) -> None:
    def answers(seed: int, companions: int) -> list[int]:
        running = bench()
        warm = ask("hello", request_id="mine", seed=seed, temperature=2.0, top_p=0.95)
        others = [
            ask("name a bird", request_id=str(n), seed=n, temperature=1.5)
            for n in range(companions)
        ]
        running.run(*others, warm)
        return running.tokens("mine")

    assert answers(5, companions=0) == answers(5, companions=6)
    assert answers(5, companions=0) != answers(6, companions=0)


def test_an_answer_ends_where_the_context_does(bench: Benches, ask: Ask) -> None:
    running = bench(context_tokens=40)
    request = ask("hello", tokens_max=None)
    running.run(request)
    assert len(request.prompt_token_ids) + len(running.tokens("hello")) == 40
    assert running.frames["hello"][-1].finish_reason is FinishReason.LENGTH


def test_more_callers_than_slots_are_all_answered_in_order(bench: Benches, ask: Ask) -> None:
    running = bench(slots=2, staging_rows=1)
    running.run(*(ask("hello", request_id=str(n), tokens_max=3 + n) for n in range(7)))
    assert [len(running.tokens(str(n))) for n in range(7)] == [3 + n for n in range(7)]
    assert running.batch.stats().running == running.batch.stats().kv_tokens_used == 0


def test_a_call_of_one_passes_the_rest_of_a_call_of_many(bench: Benches, ask: Ask) -> None:
    running = bench(slots=2, staging_rows=1)
    for number in range(8):
        running.add(ask("hello", request_id=f"many#{number}", call_id="many", tokens_max=4))
    for _ in range(3):
        running.step()
    running.add(ask("who is late?", request_id="one", tokens_max=4))
    while not running.frames["one"] or running.frames["one"][-1].finish_reason is None:
        running.step()
    heard = [n for n in range(8) if running.frames[f"many#{n}"]]
    assert len(heard) < 8
    while not running.batch.idle:
        running.step()
    assert all(len(running.tokens(f"many#{n}")) == 4 for n in range(8))
