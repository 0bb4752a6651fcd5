from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from workers.engines.continuous.detokenize import REPLACEMENT, WINDOW_MAX, Detokenizer

SPECIAL = 256


def decode(token_ids: Sequence[int]) -> str:
    """A tokenizer whose every token is one byte, the worst there is."""
    return bytes(token for token in token_ids if token < SPECIAL).decode(errors="replace")


def pieces(token_ids: Sequence[int]) -> list[str]:
    detokenizer = Detokenizer(decode)
    return [detokenizer.push([token]) for token in token_ids]


@given(st.text(alphabet=st.characters(exclude_characters=REPLACEMENT, codec="utf-8")))
def test_pieces_join_to_the_text_and_never_hold_half_a_character(text: str) -> None:
    out = pieces(list(text.encode()))
    assert "".join(out) == text
    assert not any(REPLACEMENT in piece for piece in out)


@given(st.lists(st.integers(0, SPECIAL), max_size=WINDOW_MAX))
def test_pieces_of_any_bytes_join_to_their_decoding_but_for_an_unfinished_end(
    token_ids: list[int],
) -> None:
    whole, joined = decode(token_ids), "".join(pieces(token_ids))
    assert whole.startswith(joined)
    assert set(whole[len(joined) :]) <= {REPLACEMENT}
    assert len(whole) - len(joined) <= 3


def test_an_unfinished_character_at_the_end_is_held_back() -> None:
    assert "".join(pieces(list("ok é".encode())[:-1])) == "ok "


def test_special_tokens_have_no_text_and_disturb_none() -> None:
    assert pieces([104, SPECIAL, 105]) == ["h", "", "i"]


def test_endless_tokens_without_text_stay_in_a_bounded_window() -> None:
    longest = 0

    def watched(token_ids: Sequence[int]) -> str:
        nonlocal longest
        longest = max(longest, len(token_ids))
        return decode(token_ids)

    for token in (SPECIAL, 0x80):
        detokenizer = Detokenizer(watched)
        for _ in range(5 * WINDOW_MAX):
            detokenizer.push([token])
    assert longest <= 2 * WINDOW_MAX
