"""Cheap features of a prompt: what can be seen of it in microseconds, without a tokenizer.

Pure and deterministic: no hash that is salted by the process. Bounded: of a long prompt only the
beginning and the end are looked at. The names stand in every document of learned weights, and a
document that names others is refused.
"""

import string
from math import log1p
from typing import NamedTuple

CHARACTERS_MAX = 2_000
"""Of a longer prompt the first and the last half of this are read. One that is not all ASCII is
read half as far: such characters take twice as long."""
WIDE_MAX = 300
"""So many first characters of a script without spaces each count as a word."""

NUMBERS = (
    "log_characters",
    "log_characters_squared",
    "log_tokens",
    "log_lines",
    "characters_a_word",
    "digits_share",
    "capitals_share",
    "marks_share",
    "code_marks_share",
    "not_ascii_share",
    "wide_script_share",
    "asks",
    "has_blank",
    "has_arithmetic",
    "has_code",
    "negates",
    "offers_all_or_none",
)
"""Features that are numbers, in the order of `Features.numbers`."""

_CODE = (b"```", b"def ", b"class ", b"return ", b"#include", b"SELECT ", b";\n", b"=>", b"==")
_NEGATIONS = frozenset(("not", "except", "least", "false", "cannot"))
_DIGITS = string.digits.encode()
_CAPITALS = string.ascii_uppercase.encode()
_MARKS = string.punctuation.encode()
_CODE_MARKS = b"{}[]<>=\\$^*/+|_;#`"
_OPERATORS = b"-+*/=^<>"
_FORMULAS = (b"\\frac", b"\\sum", b"\\int")
_FOREIGN = bytes(range(0xC0, 0x100))
"""The first byte of each character beyond ASCII."""
_WIDE = bytes(range(0xE0, 0x100))
"""Of each that takes three bytes or more: scripts without spaces, and pictures."""
_PLAIN = (
    string.ascii_letters.encode() + _DIGITS + string.whitespace.encode() + bytes(range(128, 256))
)
_TO_WORDS = bytes.maketrans(
    _CAPITALS + _MARKS, string.ascii_lowercase.encode() + b" " * len(_MARKS)
)
"""Capitals become small, and a mark ends a word."""
_TO_KINDS = bytes.maketrans(_DIGITS + _OPERATORS, b"0" * len(_DIGITS) + b"+" * len(_OPERATORS))


class Features(NamedTuple):
    """`numbers` in the order of NUMBERS; `words` without order, each once."""

    numbers: tuple[float, ...]
    words: frozenset[str]


def features_of(prompt: str) -> Features:
    """What is seen of a prompt. Some 10 us for 300 characters and 40 us for the most that is read:
    every step but the set of words is one pass in C."""
    text = _read(prompt)
    size = max(1, len(text))
    data = text.encode("utf-8", "replace")
    spelled = data.translate(_TO_WORDS).decode("utf-8", "replace").split()
    marks = data.translate(None, _PLAIN).decode()
    foreign, wide = (0, 0) if text.isascii() else (_count(data, _FOREIGN), _count(data, _WIDE))
    words = frozenset(spelled).union(marks, text[:WIDE_MAX] if wide else ())
    kinds = data.translate(_TO_KINDS, b" ")
    log_characters = log1p(len(prompt))
    numbers = (
        log_characters,
        log_characters * log_characters / 10,
        log1p(len(spelled) + len(marks)),
        log1p(data.count(b"\n")),
        (len(text) - data.count(b" ")) / (len(spelled) + len(marks) or 1),
        _count(data, _DIGITS) / size,
        _count(data, _CAPITALS) / size,
        len(marks) / size,
        _count(data, _CODE_MARKS) / size,
        foreign / size,
        wide / size,
        float("?" in marks),
        float("_" in marks),
        float(b"0+0" in kinds or any([formula in data for formula in _FORMULAS])),
        float(any([sign in data for sign in _CODE])),
        float(not words.isdisjoint(_NEGATIONS)),
        float(b"all of the" in data or b"none of" in data),
    )
    return Features(numbers, words)


def _count(data: bytes, kinds: bytes) -> int:
    return len(data) - len(data.translate(None, kinds))


def _read(prompt: str) -> str:
    most = CHARACTERS_MAX if prompt.isascii() else CHARACTERS_MAX // 2
    if len(prompt) <= most:
        return prompt
    half = most // 2
    return f"{prompt[:half]}\n{prompt[-half:]}"
