"""Chains of blocks of prompts, and who is expected to have them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from routing.replicas.blocks import BLOCK_BYTES, BLOCKS_MAX, Chain, chain_of
from routing.replicas.prefixes import BLOCKS_MAX_EACH, KnownPrefixes

texts = st.integers(0, 2_000).flatmap(lambda size: st.binary(min_size=size, max_size=size))
salts = st.text(max_size=8)


@given(texts, texts, texts, salts)
def test_chains_share_exactly_the_blocks_that_the_prompts_share(
    shared: bytes, one: bytes, other: bytes, salt: str
) -> None:
    first, second = chain_of(shared + one, salt).blocks, chain_of(shared + other, salt).blocks
    common = 0
    while (shared + one)[: common + 1] == (shared + other)[: common + 1] and common < len(
        shared + one
    ):
        common += 1
    alike = [a == b for a, b in zip(first, second, strict=False)]
    whole = min(common // BLOCK_BYTES, len(first), len(second))
    assert alike == [True] * whole + [False] * (len(alike) - whole)


@given(texts, salts, salts)
def test_salts_separate_tenants(prompt: bytes, one: str, other: str) -> None:
    shared = set(chain_of(prompt, one).blocks) & set(chain_of(prompt, other).blocks)
    assert not shared or one == other


@given(st.binary(max_size=2_000), salts)
def test_a_salt_cannot_be_spelled_by_a_prompt(prompt: bytes, salt: str) -> None:
    longer = salt.encode() + b"\0" + prompt
    shared = set(chain_of(prompt, salt).blocks) & set(chain_of(longer, "").blocks)
    assert not shared or not salt


@given(st.integers(0, BLOCK_BYTES * (BLOCKS_MAX + 3)))
def test_chain_of_a_long_prompt_is_bounded(size: int) -> None:
    chain = chain_of(b"x" * size, "org")
    assert len(chain.blocks) == min(size // BLOCK_BYTES, BLOCKS_MAX)
    assert chain.size == size


@given(st.integers(1, 9_000), st.integers(1, 5_000), st.data())
def test_never_all_tokens_of_a_prompt_are_in_its_blocks(
    size: int, tokens: int, data: st.DataObject
) -> None:
    chain = chain_of(b"x" * size, "org")
    known = data.draw(st.integers(0, len(chain.blocks)))
    assert 0 <= chain.tokens(known, tokens) < tokens
    assert Chain().tokens(0, tokens) == 0


# --- who has them ------------------------------------------------------------------------------

orders = st.lists(st.tuples(st.sampled_from("ab"), texts, st.integers(64, 2_000)), max_size=30)


@given(orders)
def test_what_is_known_of_a_replica_is_bounded_by_its_cache(
    prompts: list[tuple[str, bytes, int]],
) -> None:
    known = KnownPrefixes()
    for name, prompt, cache_tokens in prompts:
        known.remember(name, chain_of(prompt, "org"), cache_tokens)
    last = {name: cache_tokens for name, prompt, cache_tokens in prompts if prompt[BLOCK_BYTES:]}
    assert len(known) <= sum(max(1, tokens // 64) for tokens in last.values()) + 2
    assert BLOCKS_MAX_EACH < 20_000


@given(orders, texts)
def test_blocks_that_are_known_were_computed_there(
    prompts: list[tuple[str, bytes, int]], asked: bytes
) -> None:
    known = KnownPrefixes()
    computed: dict[str, set[bytes]] = {"a": set(), "b": set()}
    for name, prompt, cache_tokens in prompts:
        chain = chain_of(prompt, "org")
        known.remember(name, chain, cache_tokens)
        computed[name] |= set(chain.blocks)
    chain = chain_of(asked, "org")
    for name, blocks in computed.items():
        found = known.blocks_known(name, chain)
        assert set(chain.blocks[:found]) <= blocks


@given(texts, st.integers(64, 2_000))
def test_last_prompt_is_known_as_far_as_the_cache_has_room(prompt: bytes, tokens: int) -> None:
    known = KnownPrefixes()
    for other in (b"y" * 3_000, prompt):
        known.remember("a", chain_of(other, "org"), tokens)
    chain = chain_of(prompt, "org")
    assert known.blocks_known("a", chain) == min(len(chain.blocks), tokens // 64)
    assert known.blocks_known("b", chain) == 0


def test_prompt_is_forgotten_when_others_took_its_room() -> None:
    known = KnownPrefixes()
    first, second = (chain_of(letter * 2_000, "org") for letter in (b"a", b"b"))
    known.remember("r", first, 7 * 64)
    known.remember("r", second, 7 * 64)
    assert (known.blocks_known("r", first), known.blocks_known("r", second)) == (0, 7)


def test_replicas_that_are_gone_are_forgotten() -> None:
    known = KnownPrefixes()
    for name in ("a", "b"):
        known.remember(name, chain_of(b"x" * 600, "org"))
    known.keep_only(["b", "c"])
    assert len(known) == 2 and known.blocks_known("a", chain_of(b"x" * 600, "org")) == 0
