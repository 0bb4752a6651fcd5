"""Guides to constraints, by llguidance. Guards the bounds on what a schema may cost: its size, the
work and memory of compiling it, and the work of each step; and the law that no token leaves a
constrained sequence that its grammar does not take."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from workers.engines.base import Guide, GuideInvalid, Schema, UnsupportedParameter
from workers.engines.grammar import grammar, json_grammar, schemas
from workers.templates import CALL_CLOSE, CALL_OPEN

GRAMMAR_BYTES_MAX = 512 * 1024
KEPT_MAX = 32
WORD_BITS = 32
COMPILE_FAILED = "failed to compile JSON schema: "
# About 20 ms of work to compile, 10 ms for a token, and 20 MB of states.
LIMITS: dict[str, Any] = {
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 150_000,
    "step_max_items": 50_000,
    "max_lexer_states": 10_000,
    "max_grammar_size": 500_000,
    "verbose_errors": False,
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """A `Constraint`: the grammar, and a matcher in its first state that sequences copy."""

    guide: Guide
    grammar: str
    first: Any

    def matcher(self) -> Matcher:
        return Matcher(self.first.deep_copy())


class Matcher:
    """Where one sequence stands in its grammar. `broken` once no step can be made: it was more work
    than a step may be, or no token fits."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self.broken = False

    def allowed(self, vocabulary: int) -> Any:
        """A flag for each token that may come next, end tokens included where the form may end;
        None, and broken, where there is none."""
        words = np.zeros(-(-vocabulary // WORD_BITS), np.int32)
        self._state.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        flags = np.unpackbits(words.view(np.uint8), bitorder="little")[:vocabulary]
        self.broken = bool(self._state.is_error()) or not flags.any()
        return None if self.broken else flags

    def accept(self, token: int) -> None:
        self.broken = self.broken or not self._state.consume_token(token)

    @property
    def complete(self) -> bool:
        """Nothing more may come."""
        return not self.broken and bool(self._state.is_stopped())


class Guides:
    """Compiles one guide at a time, on a thread, and keeps the last ones. `source` is the tokenizer
    as its library writes it, None for a kind of tokenizer that cannot be followed."""

    def __init__(
        self, source: Callable[[], str | None], *, vocabulary: int, eos_token_ids: Collection[int]
    ) -> None:
        self._source = source
        self._vocabulary = vocabulary
        self._eos_token_ids = sorted(eos_token_ids)
        self._kept: OrderedDict[Guide, Compiled] = OrderedDict()
        self._compiling = asyncio.Lock()
        self._tokens: Any = None
        self._marks: frozenset[str] = frozenset()

    async def compiled(self, guide: Guide) -> Compiled:
        """Raises GuideInvalid, or UnsupportedParameter where no guide can be followed."""
        if guide not in self._kept:
            async with self._compiling:
                if guide not in self._kept:
                    self._kept[guide] = await asyncio.to_thread(self._compile, guide)
                    if len(self._kept) > KEPT_MAX:
                        self._kept.popitem(last=False)
        self._kept.move_to_end(guide)
        return self._kept[guide]

    def _compile(self, guide: Guide) -> Compiled:
        if self._tokens is None:
            self._load(guide)
        text = grammar(guide, marks=self._marks)
        if len(text) > GRAMMAR_BYTES_MAX:
            message = f"The schemas are larger than {GRAMMAR_BYTES_MAX} bytes together."
            raise GuideInvalid(message, param=schemas(guide)[-1].param)
        first = self._matcher(text)
        if first.is_error():
            raise self._invalid(guide, first.get_error())
        return Compiled(guide, text, first)

    def _load(self, guide: Guide) -> None:
        from llguidance import LLTokenizer

        source = self._source()
        try:
            if source is None:
                raise ValueError("it is not of the tokenizers library")
            tokens = LLTokenizer(
                source, n_vocab=self._vocabulary, eos_token=self._eos_token_ids or None
            )
        except ValueError as unknown:
            message = f"This model's tokenizer cannot be held to a form: {unknown}"
            raise UnsupportedParameter(message, param=schemas(guide)[0].param) from unknown
        self._tokens = tokens
        self._marks = frozenset(
            mark for mark in (CALL_OPEN, CALL_CLOSE) if _is_one_token(tokens, mark)
        )

    def _matcher(self, text: str) -> Any:
        from llguidance import LLMatcher, LLParserLimits

        return LLMatcher(self._tokens, text, log_level=0, limits=LLParserLimits(**LIMITS))

    def _invalid(self, guide: Guide, reason: str) -> GuideInvalid:
        """Of the first schema that cannot be followed by itself, or else of them all together."""
        for schema in schemas(guide):
            alone = self._matcher(json_grammar(schema))
            if alone.is_error():
                return _refused(guide, schema, alone.get_error())
        return _refused(guide, schemas(guide)[-1], reason)


def _is_one_token(tokens: Any, mark: str) -> bool:
    ids = tokens.tokenize_str(mark, parse_special=True)
    return len(ids) == 1 and bool(tokens.is_special_token(ids[0]))


def _refused(guide: Guide, schema: Schema, reason: str) -> GuideInvalid:
    _, found, why = reason.partition(COMPILE_FAILED)
    said = (why if found else reason).strip().splitlines()[0] if reason.strip() else "too complex"
    what = "response_format" if schema is guide.answer else "function"
    return GuideInvalid(f"Invalid schema for {what} '{schema.name}': {said}", param=schema.param)
