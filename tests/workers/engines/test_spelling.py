from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from tests.workers.engines.conftest import MODEL_PATH
from workers.engines.continuous.spelling import token_bytes

TOKENIZER = Tokenizer.from_file(str(MODEL_PATH / "tokenizer.json"))
RAW = token_bytes(TOKENIZER)


@given(st.text(alphabet=st.characters(codec="utf-8")))
def test_the_bytes_of_tokens_in_a_row_are_the_text(text: str) -> None:
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids
    assert b"".join(map(RAW, ids)) == text.encode()


def test_every_single_byte_has_its_token() -> None:
    spellings = {RAW(token_id) for token_id in range(TOKENIZER.get_vocab_size())}
    assert {bytes([byte]) for byte in range(256)} <= spellings


def test_a_special_token_is_its_name_and_an_unknown_id_is_nothing() -> None:
    token_id = TOKENIZER.token_to_id("<|end|>")
    assert RAW(token_id) == b"<|end|>"
    assert RAW(10**6) == b""


@pytest.mark.parametrize(
    ("token", "wanted"), [("\u2581the", b" the"), ("<0xE2>", b"\xe2"), ("<0x", b"<0x")]
)
def test_sentence_pieces_write_spaces_and_bytes_in_their_own_way(
    token: str, wanted: bytes, tmp_path: Path
) -> None:
    tokenizer = Tokenizer(models.WordLevel({token: 0}, unk_token=token))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    assert token_bytes(tokenizer)(0) == wanted
