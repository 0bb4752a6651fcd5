"""Guides to constraints, by llguidance. Guards the bounds on the cost of a schema: its size, the
work and memory of compiling it, and the work of each step. Guards also that no token leaves a
constrained sequence that its grammar does not take."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from workers.engines.base import GuideInvalid, UnsupportedParameter
from workers.engines.bounds import bounded
from workers.engines.continuous.spelling import token_bytes
from workers.engines.forms import Guide, Rule, Schema
from workers.engines.grammar import grammar, json_grammar, parts, schemas
from workers.prompts.control_tokens import text_encoder
from workers.prompts.templates import CALL_CLOSE, CALL_OPEN

GRAMMAR_BYTES_MAX = 512 * 1024
GUIDES_MAX = 32
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
    """A `Constraint`: the grammar, and a matcher in its first state, which sequences copy."""

    guide: Guide
    grammar: str
    first: Any

    def matcher(self) -> Matcher:
        return Matcher(self.first.deep_copy())


class Matcher:
    """The place of one sequence in its grammar. It is `broken` once no step can be made: a step was
    too much work, or no token fits."""

    def __init__(self, state: Any) -> None:
        self._state = state
        self.broken = False

    def allow(self, words: Any) -> None:
        """Write a bit for each token that may come next into a row of WORD_BITS-bit words. End
        tokens are included where the form may end. A broken matcher allows every token."""
        self._state.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        self.broken = bool(self._state.is_error()) or not words.any()
        if self.broken:
            words.fill(-1)

    def accept(self, token: int) -> None:
        self.broken = self.broken or not self._state.consume_token(token)

    @property
    def complete(self) -> bool:
        """Whether no token may come any more."""
        return not self.broken and bool(self._state.is_stopped())


def forbidden(matchers: Sequence[Matcher], vocabulary: int) -> Any:
    """A flag for each token that may not come next, one row for each matcher."""
    words = np.zeros((len(matchers), -(-vocabulary // WORD_BITS)), np.int32)
    for row, matcher in enumerate(matchers):
        matcher.allow(words[row])
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
    return bits[:, :vocabulary] == 0


class Guides:
    """Compiles one guide at a time, on a thread, and keeps the last ones. `source` is the tokenizer
    as its library writes it, None for a kind of tokenizer that cannot be followed. `spells` is
    False where the engine's own masks take control tokens for their spelling. No schema may contain
    one then."""

    def __init__(
        self,
        source: Callable[[], str | None],
        *,
        vocabulary: int,
        eos_token_ids: Collection[int],
        spells: bool = True,
    ) -> None:
        self._source = source
        self._vocabulary = vocabulary
        self._eos_token_ids = sorted(eos_token_ids)
        self._kept: OrderedDict[Guide, Compiled] = OrderedDict()
        self._compiling = asyncio.Lock()
        self._spells = spells
        self._added: frozenset[str] = frozenset()
        self._tokens: Any = None
        self._marks: frozenset[str] = frozenset()

    async def compiled(self, guide: Guide) -> Compiled:
        """The compiled guide. Raises GuideInvalid, or UnsupportedParameter where no guide can be
        followed."""
        if guide not in self._kept:
            async with self._compiling:
                if guide not in self._kept:
                    self._kept[guide] = await asyncio.to_thread(self._compile, guide)
                    if len(self._kept) > GUIDES_MAX:
                        self._kept.popitem(last=False)
        self._kept.move_to_end(guide)
        return self._kept[guide]

    def _compile(self, guide: Guide) -> Compiled:
        if self._tokens is None:
            self._load(guide)
        if not self._spells:
            self._refuse_spellings(guide)
        text = grammar(guide, marks=self._marks)
        if len(text) > GRAMMAR_BYTES_MAX:
            message = f"The schemas are larger than {GRAMMAR_BYTES_MAX} bytes together."
            raise GuideInvalid(message, param=parts(guide)[-1].param)
        bounds = partial(bounded, room=guide.room)
        if result := self._followed(guide, grammar(guide, marks=self._marks, bounds=bounds)):
            return result
        first = self._matcher(text)
        if first.is_error():
            raise self._invalid(guide, first.get_error())
        return Compiled(guide, text, first)

    def _followed(self, guide: Guide, text: str) -> Compiled | None:
        """The guide compiled with our added bounds. None where those make it too much work."""
        if len(text) > GRAMMAR_BYTES_MAX:
            return None
        first = self._matcher(text)
        return None if first.is_error() else Compiled(guide, text, first)

    def _load(self, guide: Guide) -> None:
        from llguidance import LLTokenizer, TokenizerWrapper
        from tokenizers import Tokenizer

        source = self._source()
        try:
            if source is None:
                raise ValueError("it is not of the tokenizers library")
            spelled = _Spelled(Tokenizer.from_str(source), self._vocabulary, self._eos_token_ids)
            tokens = LLTokenizer(TokenizerWrapper(spelled), eos_token=self._eos_token_ids or None)
        except ValueError as unknown:
            message = f"This model's tokenizer cannot be held to a form: {unknown}"
            raise UnsupportedParameter(message, param=parts(guide)[0].param) from unknown
        self._tokens = tokens
        self._added = frozenset(spelled.added)
        self._marks = self._added & {CALL_OPEN, CALL_CLOSE}

    def _refuse_spellings(self, guide: Guide) -> None:
        for schema in parts(guide):
            if tokens := sorted(token for token in self._added if token in schema.text):
                raise _refused(guide, schema, f"it spells the control token {tokens[0]}")

    def _matcher(self, text: str) -> Any:
        from llguidance import LLMatcher, LLParserLimits

        return LLMatcher(self._tokens, text, log_level=0, limits=LLParserLimits(**LIMITS))

    def _invalid(self, guide: Guide, reason: str) -> GuideInvalid:
        """The error for the first schema that cannot be followed by itself, or else for all of them
        together."""
        for schema in schemas(guide):
            alone = self._matcher(json_grammar(schema))
            if alone.is_error():
                return _refused(guide, schema, alone.get_error())
        return _refused(guide, parts(guide)[-1], reason)


class _Spelled:
    """A tokenizer in the form that llguidance asks for. llguidance's own reader of the library's
    files takes a control token for its spelling in a schema (`"const": "<|end|>"`). The answer
    would end there."""

    bos_token_id = None

    def __init__(self, tokenizer: Any, vocabulary: int, eos_token_ids: Sequence[int]) -> None:
        raw = token_bytes(tokenizer)
        added_tokens = tokenizer.get_added_tokens_decoder()
        self.tokens = [raw(token_id) for token_id in range(vocabulary)]
        self.special_token_ids = [token_id for token_id in added_tokens if token_id < vocabulary]
        self.eos_token_id = eos_token_ids[0] if eos_token_ids else 0
        self.added = {token.content for token in added_tokens.values()}
        self._encode = text_encoder(tokenizer)

    def __call__(self, text: str | bytes) -> list[int]:
        if isinstance(text, bytes):
            raise TypeError("it encodes text")
        return self._encode(text)


def _refused(guide: Guide, schema: Schema | Rule, reason: str) -> GuideInvalid:
    _, mark, why = reason.partition(COMPILE_FAILED)
    text = (why if mark else reason).strip().splitlines()[0] if reason.strip() else "too complex"
    if isinstance(schema, Rule):
        return GuideInvalid(f"Invalid '{schema.param}': {text}", param=schema.param)
    what = "response_format" if schema is guide.answer else "function"
    return GuideInvalid(f"Invalid schema for {what} '{schema.name}': {text}", param=schema.param)
