from workers.engines.base import GenerationRequest
from workers.engines.continuous.outbox import Outbox
from workers.engines.continuous.sequence import RunningSequence


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def sequence(name: str = "a") -> RunningSequence:
    return RunningSequence(
        GenerationRequest(name, (1, 2), seed=0, tokens_max=5),
        context_tokens=100,
        eos_token_ids=frozenset(),
        decode=lambda ids: "".join(map(str, ids)),
        raw=lambda token_id: str(token_id).encode(),
    )


def test_a_first_token_leaves_at_once_and_the_next_ones_together() -> None:
    clock = Clock()
    outbox, running = Outbox(interval_s=0.02, now_s=clock), sequence()
    running.accept(7)
    outbox.add([running])
    assert outbox.due
    assert [frame.token_ids for _, frame in outbox.frames()] == [(7,)]
    for token in (8, 9):
        running.accept(token)
        outbox.add([running])
        assert not outbox.due
    clock.now_s = 0.02
    assert outbox.due
    assert [(frame.text, frame.position) for _, frame in outbox.frames()] == [("89", 3)]


def test_a_last_token_takes_along_what_waited() -> None:
    outbox = Outbox(interval_s=100, now_s=Clock())
    ending, other = sequence("ending"), sequence("other")
    for each in (ending, other):
        each.accept(1)
    outbox.add([ending, other])
    outbox.frames()
    for token in range(4):
        ending.accept(token)
    other.accept(9)
    outbox.add([other, ending])
    assert outbox.due
    assert [frame.position for _, frame in outbox.frames()] == [2, 5]


def test_nothing_gained_is_never_due() -> None:
    clock = Clock()
    outbox = Outbox(interval_s=0.02, now_s=clock)
    clock.now_s = 99
    assert not outbox.due
    assert outbox.frames() == []


def test_an_immediate_caller_waits_for_no_company() -> None:
    outbox = Outbox(interval_s=100, now_s=Clock())
    hurried = RunningSequence(
        GenerationRequest("a", (1, 2), seed=0, tokens_max=5, immediate=True),
        context_tokens=100,
        eos_token_ids=frozenset(),
        decode=lambda ids: "".join(map(str, ids)),
        raw=lambda token_id: str(token_id).encode(),
    )
    for token in (7, 8, 9):
        hurried.accept(token)
        outbox.add([hurried])
        assert outbox.due
        assert [frame.token_ids for _, frame in outbox.frames()] == [(token,)]
