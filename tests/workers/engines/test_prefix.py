from hypothesis import given
from hypothesis import strategies as st

from workers.engines.continuous.prefix import Placement, PrefixIndex

BLOCK = 4
tokens = st.lists(st.integers(0, 2), max_size=24)  # few different tokens: prefixes often meet
salts = st.sampled_from(["org_a", "org_b"])
histories = st.lists(st.tuples(salts, tokens), max_size=20)


class Memory:
    """An index with what its caller keeps: the content of every block."""

    def __init__(self, blocks: int) -> None:
        self.index = PrefixIndex(blocks=blocks, block_tokens=BLOCK)
        self.content: dict[int, tuple[str, tuple[int, ...]]] = {}

    def insert(self, salt: str, tokens: list[int]) -> list[Placement]:
        placements = self.index.insert(salt, tokens)
        for placement in placements:
            # A block's state depends on everything before it, not only on its own tokens.
            self.content[placement.block] = (salt, tuple(tokens[: placement.start + BLOCK]))
        return placements


@given(histories, salts, tokens, st.integers(0, 12))
def test_a_match_is_a_true_prefix_under_the_same_salt(
    history: list[tuple[str, list[int]]], salt: str, wanted: list[int], blocks: int
) -> None:
    memory = Memory(blocks)
    for told_salt, told in history:
        memory.insert(told_salt, told)
    for number, block in enumerate(memory.index.match(salt, wanted)):
        assert memory.content[block] == (salt, tuple(wanted[: (number + 1) * BLOCK]))


@given(histories, salts, st.lists(st.integers(0, 2), min_size=1, max_size=24))
def test_the_last_token_is_always_left_to_compute(
    history: list[tuple[str, list[int]]], salt: str, wanted: list[int]
) -> None:
    memory = Memory(100)
    for told_salt, told in [*history, (salt, wanted)]:
        memory.insert(told_salt, told)
    matched = len(memory.index.match(salt, wanted)) * BLOCK
    assert matched == (len(wanted) - 1) // BLOCK * BLOCK


@given(histories, st.integers(0, 12))
def test_free_and_used_blocks_are_the_capacity(
    history: list[tuple[str, list[int]]], blocks: int
) -> None:
    memory = Memory(blocks)
    for salt, told in history:
        before = len(memory.index)
        placements = memory.insert(salt, told)
        memory.index.match(salt, told)
        assert len(memory.index) + memory.index.free == blocks
        assert len({placement.block for placement in placements}) == len(placements)
        assert len(memory.index) >= before


@given(salts, tokens, st.integers(0, 6))
def test_what_was_just_inserted_is_found_as_far_as_it_fits(
    salt: str, told: list[int], blocks: int
) -> None:
    memory = Memory(blocks)
    memory.insert("org_c", [9] * 40)
    memory.insert(salt, told)
    found = memory.index.match(salt, [*told, 0])
    assert len(found) == min(len(told) // BLOCK, blocks)


def test_least_recently_used_goes_first_and_ends_of_chains_before_their_starts() -> None:
    index = PrefixIndex(blocks=3, block_tokens=BLOCK)
    index.insert("a", [1] * 4)
    index.insert("a", [2] * 8)
    index.match("a", [1] * 5)  # used again
    index.insert("a", [3] * 4)  # pushes out the end of the chain of twos
    assert len(index.match("a", [1] * 5)) == 1
    assert len(index.match("a", [2] * 9)) == 1


def test_the_same_tokens_of_another_tenant_are_not_found() -> None:
    index = PrefixIndex(blocks=8, block_tokens=BLOCK)
    index.insert("org_a", [1] * 8)
    assert index.match("org_b", [1] * 9) == []
