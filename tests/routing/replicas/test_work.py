"""Counters of what is outstanding: sums of what is open, and zero once nothing is."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from routing.gauges import Gauges
from routing.replicas.choice import Demand, work_of
from routing.replicas.work import NO_WORK, OpenPiece, Outstanding, Work, reconciled
from tests.routing.fleets import replica

counts = st.integers(0, 3_000)
works = st.builds(Work, counts, counts, counts, counts)


class OpenCalls(RuleBasedStateMachine):
    """Calls begin, come to their first token, grow and end in any order, some of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.outstanding = Outstanding()
        self.pieces: list[OpenPiece] = []

    @rule(name=st.sampled_from("abc"), prompt=counts, cached=counts, output=counts)
    def begin(self, name: str, prompt: int, cached: int, output: int) -> None:
        work = work_of(Demand(prompt, output), cached)
        self.pieces.append(self.outstanding.begin(name, work))

    @rule(data=st.data(), tokens=counts)
    def go_on(self, data: st.DataObject, tokens: int) -> None:
        if self.pieces:
            piece = data.draw(st.sampled_from(self.pieces))
            data.draw(st.sampled_from([piece.computed, lambda: piece.grew(tokens), piece.end]))()

    @invariant()
    def sums_are_those_of_what_is_open(self) -> None:
        for name in "abc":
            total = NO_WORK
            for piece in self.pieces:
                if piece.replica_id == name and piece._work is not None:
                    total = total.beside(piece._work)
            assert self.outstanding.at(name) == total
            assert min(total) >= 0

    def teardown(self) -> None:
        for piece in self.pieces:
            piece.end()
        assert self.outstanding.by_replica == {}


TestOpenCalls = OpenCalls.TestCase


def test_sg_counters_are_zero_after_ten_thousand_random_cancels() -> None:
    rng = Random(5)
    outstanding = Outstanding()
    still_open: list[OpenPiece] = []
    cancels = 0
    while cancels < 10_000:
        if len(still_open) < 50 and rng.random() < 0.6:
            demand = Demand(rng.randrange(4_000), rng.randrange(500))
            work = work_of(demand, rng.randrange(4_000))
            still_open.append(outstanding.begin(f"r{rng.randrange(3)}", work))
        elif still_open:
            piece = still_open.pop(rng.randrange(len(still_open)))
            for step in range(rng.randrange(4)):  # as far as it came
                piece.computed() if not step else piece.grew(step * rng.randrange(1, 300))
            for _ in range(rng.randrange(1, 3)):
                piece.end()
            cancels += 1
    for piece in still_open:
        piece.end()
    assert outstanding.by_replica == {}


@given(works, works)
def test_load_is_whichever_is_more_and_never_less_than_either(counted: Work, said: Work) -> None:
    gauges = Gauges(said.context_tokens, 0, 0, said.prefill_tokens, said.output_tokens)
    warm = replica(running=said.calls, gauges=gauges)
    found = reconciled(warm, counted, output_tokens_each=10)
    assert found == Work(*map(max, counted, said))


def test_replica_without_gauges_has_calls_like_this_one() -> None:
    warm = replica(running=2, queued=1)
    assert reconciled(warm, NO_WORK, output_tokens_each=40) == Work(3, 0, 0, 120)


def test_first_token_ends_the_prefill_and_chunks_grow_the_context() -> None:
    outstanding = Outstanding()
    piece = outstanding.begin("r", work_of(Demand(300, 50), cached_tokens=256))
    assert outstanding.at("r") == Work(1, 44, 300, 50)
    piece.computed()
    assert outstanding.at("r") == Work(1, 0, 300, 50)
    piece.grew(20)
    assert outstanding.at("r") == Work(1, 0, 320, 30)
    piece.grew(80)
    assert outstanding.at("r") == Work(1, 0, 380, 1)
    piece.end()
    assert outstanding.by_replica == {}
