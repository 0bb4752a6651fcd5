"""Whose turn it is among keys, what their limits let through, and where their secrets are."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.key import KeyTurns, ProviderKey
from gateway.providers.key_files import KeyFiles
from gateway.providers.key_limits import KeyLimits

SHARES = st.dictionaries(st.sampled_from("abcde"), st.integers(1, 9), min_size=1)


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@given(SHARES, st.integers(1, 3))
def test_each_key_has_exactly_its_share_of_the_turns(shares: dict[str, int], rounds: int) -> None:
    turns = KeyTurns()
    chosen = Counter(turns.next(shares) for _ in range(rounds * sum(shares.values())))
    assert chosen == {name: share * rounds for name, share in shares.items()}


@given(st.lists(SHARES, min_size=1, max_size=30))
def test_only_a_key_that_may_be_used_has_a_turn(rounds: list[dict[str, int]]) -> None:
    turns = KeyTurns()
    assert all(turns.next(shares) in shares for shares in rounds)


def test_a_key_that_was_left_out_makes_up_for_nothing() -> None:
    turns = KeyTurns()
    for _ in range(50):
        turns.next({"a": 1})
    assert Counter(turns.next({"a": 1, "b": 1}) for _ in range(4)) == {"a": 2, "b": 2}


@given(
    st.integers(1, 12),
    st.integers(1, 300),
    st.integers(1, 3),
    st.lists(st.tuples(st.floats(0, 40), st.integers(1, 80)), max_size=60),
)
def test_no_60_seconds_have_more_than_the_limits_and_a_wait_that_is_over_lets_a_call_through(
    calls_max: int, tokens_max: int, gateways: int, steps: list[tuple[float, int]]
) -> None:
    clock = Clock()
    limits = KeyLimits(clock, lambda: gateways)
    key = ProviderKey(name="K", requests_per_minute=calls_max, tokens_per_minute=tokens_max)
    part = max(1, calls_max // gateways), max(1, tokens_max // gateways)
    began: list[tuple[float, int]] = []
    for after_s, tokens in steps:
        clock.now_s += after_s
        if (wait_s := limits.wait_s(key, tokens)) > 0:
            assert wait_s <= 61
            clock.now_s += wait_s
        assert limits.wait_s(key, tokens) <= 0
        limits.open(key, tokens).close()
        began.append((clock.now_s, tokens))
        last_minute = [each for at_s, each in began if at_s > clock.now_s - 60]
        assert len(last_minute) <= part[0]
        assert sum(last_minute) <= part[1] or len(last_minute) == 1, "one that is larger goes alone"


def test_no_more_calls_at_a_time_than_the_limit_and_each_counts_until_it_is_closed() -> None:
    limits = KeyLimits(Clock(), lambda: 1)
    key = ProviderKey(name="K", concurrent=2)
    one, two = limits.open(key, 1), limits.open(key, 1)
    assert limits.wait_s(key, 1) > 0 and limits.in_flight("K") == 2
    for _ in range(2):
        one.close()
    assert limits.wait_s(key, 1) == 0 and limits.in_flight("K") == 1
    two.close()
    assert limits.in_flight("K") == 0


def test_a_file_is_read_anew_wins_over_a_variable_and_is_of_no_other_name(tmp_path: Path) -> None:
    clock, name = Clock(), "SLUICE_PROVIDER_KEY_A"
    secrets = KeyFiles(tmp_path, {name: "of the variable", "SLUICE_SQL_URL": "x"}, clock)
    assert secrets.get(name) == "of the variable"
    (tmp_path / name).write_text("of the file\n")
    (tmp_path / "SLUICE_SQL_URL").write_text("never read")
    clock.now_s += 2
    assert (secrets.get(name), secrets.get("SLUICE_SQL_URL")) == ("of the file", "x")
    assert secrets.get("SLUICE_PROVIDER_KEY_B") is None
    (tmp_path / name).write_bytes(b"\xff")
    clock.now_s += 2
    assert secrets.get(name) == "of the variable", "what is no text holds no key"
