"""The bytes of single tokens, as their vocabulary spells them. Decoding one token alone does not
work: it may be a part of a character, and decoders trim and join. Guards the law that the bytes of
tokens in a row are the bytes of their text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

BYTE_FALLBACK = re.compile(r"<0x([0-9A-F]{2})>")
SPACE_SIGN = "\u2581"


def token_bytes(tokenizer: Any) -> Callable[[int], bytes]:
    """The bytes of each token of the `tokenizers` library, by undoing its decoder. A special token
    is its name. An id that only pads the vocabulary has no bytes."""
    decoder = json.loads(tokenizer.to_str()).get("decoder")
    spelled = _byte_level if "ByteLevel" in _kinds(decoder) else _sentence_piece
    added_tokens = tokenizer.get_added_tokens_decoder()

    @cache  # as many as the vocabulary has
    def raw(token_id: int) -> bytes:
        if token_id in added_tokens:
            return str(added_tokens[token_id].content).encode()
        return spelled(tokenizer.id_to_token(token_id) or "")

    return raw


def _kinds(decoder: dict[str, Any] | None) -> set[str]:
    """The types of a decoder, and of those in its sequence."""
    if decoder is None:
        return set()
    return {decoder["type"]}.union(*map(_kinds, decoder.get("decoders", ())))


def _byte_level(token: str) -> bytes:
    """The bytes of a token. Each byte is one printable character there (GPT-2's table)."""
    byte_of = _byte_of_character()
    return b"".join(byte_of.get(character, character.encode()) for character in token)


def _sentence_piece(token: str) -> bytes:
    byte = BYTE_FALLBACK.fullmatch(token)
    return bytes([int(byte[1], 16)]) if byte else token.replace(SPACE_SIGN, " ").encode()


@cache
def _byte_of_character() -> dict[str, bytes]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(256 + number): bytes([byte]) for number, byte in enumerate(others)}
    return {chr(byte): bytes([byte]) for byte in printable} | shifted
