"""One request while it runs: its tokens, how many of them the rows hold, and the text that has
left. Guards the law that frames count every token exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from workers.engines.base import (
    FinishReason,
    Frame,
    GenerationRequest,
    TokenLogprobs,
    TokenUsage,
)
from workers.engines.continuous.detokenize import Detokenizer
from workers.engines.continuous.logprobs import Score, spelled
from workers.engines.continuous.sampling import Draw, drawn
from workers.engines.continuous.stops import StopMatcher
from workers.engines.guides import Matcher


class RunningSequence:
    def __init__(
        self,
        request: GenerationRequest,
        *,
        context_tokens: int,
        eos_token_ids: frozenset[int],
        decode: Callable[..., str],
        raw: Callable[[int], bytes],
        matcher: Matcher | None = None,
    ) -> None:
        """`decode` leaves control tokens out, unless it gets `skip_special_tokens=False`. `matcher`
        is there where this engine holds the answer to its constraint itself."""
        self.request = request
        self.tokens = list(request.prompt_token_ids)
        self.computed = 0  # tokens whose keys and values are in the row
        self.cached = 0  # of them, how many came from the prefix cache
        self.busy_us = 0  # its share of the time that was computed
        room = context_tokens - self.prompt_tokens
        tokens_max = request.tokens_max
        self.output_tokens_max = room if tokens_max is None else min(tokens_max, room)
        ends = frozenset() if request.endless else eos_token_ids
        self.end_token_ids = ends.union(request.stop_token_ids)
        spelled = request.skip_special_tokens
        self._detokenizer = Detokenizer(
            decode if spelled else partial(decode, skip_special_tokens=False)
        )
        self._stops = StopMatcher(request.stop) if request.stop else None
        self.finish_reason: FinishReason | None = None
        self._stop: str | int | None = None  # the stop string or token that ended it
        self._framed = self.prompt_tokens  # tokens that are already in a frame
        self._text: list[str] = []
        self._raw = raw
        self._scores: list[Score] = []  # of accepted tokens that are in no frame yet
        self._prompt_scores: list[Score] | None = [] if self.scores_prompt else None
        self.counts: dict[int, int] = {}  # of each token of the answer, where there are penalties
        repeats = request.repetition_penalty != 1
        self.repeated = set(request.prompt_token_ids) if repeats else None
        self.matcher = matcher
        self._ended_by_token = False
        self._prefix_texts: tuple[str, ...] = ()
        self._opening = self.prompt_tokens  # tokens that are there before the first one is drawn
        if request.answer_prefix:
            self._replay(request.answer_prefix)

    def _replay(self, frames: Sequence[Sequence[int]]) -> None:
        """Accept an answer's beginning, frame by frame as it was delivered. So whatever was held
        back of its text then is held back now."""
        self._prefix_texts = tuple(self._replayed(token_ids) for token_ids in frames)
        self._opening = len(self.tokens)

    def _replayed(self, token_ids: Sequence[int]) -> str:
        for token in token_ids:
            self.accept(token)
        return self.frame().text

    @property
    def call_id(self) -> str:
        return self.request.call_id or self.request.request_id

    @property
    def prompt_tokens(self) -> int:
        return len(self.request.prompt_token_ids)

    @property
    def prompt_remaining(self) -> int:
        """Tokens to compute before the next one is drawn: of the prompt, and of the answer's
        prefix."""
        return self._opening - self.computed

    @property
    def unbegun(self) -> bool:
        """Whether no token has been drawn."""
        return len(self.tokens) == self._opening

    @property
    def prefill_tokens_left(self) -> int:
        """The part of the prompt that is not computed. After the first token it is nothing, also in
        an engine that does not say how far it has come before that."""
        return max(0, self.prompt_remaining) if self.unbegun else 0

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens

    @property
    def scores_prompt(self) -> bool:
        """Those of a prompt whose answer goes on have come with its first frame."""
        return self.request.prompt_logprobs is not None and not self.request.answer_prefix

    @property
    def too_early(self) -> bool:
        """Whether the answer may not end yet."""
        return self.output_tokens < self.request.min_tokens

    @property
    def urgent(self) -> bool:
        """Whether the frame must leave now. A reader waits for a first token and a last one. Tokens
        between may share a frame, unless the caller pays for every token to leave at once."""
        if self.request.immediate:
            return True
        return self.finish_reason is not None or self._framed == self._opening

    @property
    def shapes(self) -> bool:
        """Whether the next token is drawn from changed logits."""
        if self.matcher is not None or self.repeated is not None or self.too_early:
            return True
        return bool(self.request.logit_bias or self.counts)

    def draw(self) -> Draw:
        """The draw of the next token."""
        return drawn(self.request, self.request.seed, self.output_tokens)

    def score_prompt(self, scores: Sequence[Score]) -> None:
        """Add scores of the next tokens of the prompt. Its first token has none."""
        if self._prompt_scores is not None:
            self._prompt_scores += scores

    def accept(self, token: int, score: Score | None = None) -> None:
        """Append a sampled token, and decide whether it was the last."""
        early = self.too_early
        self.tokens.append(token)
        if score is not None:
            self._scores.append(score)
        if self.request.penal:
            self.counts[token] = self.counts.get(token, 0) + 1
        if self.repeated is not None:
            self.repeated.add(token)
        if self.matcher is not None and self.matcher.broken:
            self.finish_reason = FinishReason.LENGTH  # the token was drawn from any
        elif token in self.end_token_ids and not early:
            self._end_by(token)
        elif self._completed_by(token) or self._stopped_by(token, early):
            self.finish_reason = FinishReason.STOP
        elif self.output_tokens >= self.output_tokens_max:
            self.finish_reason = FinishReason.LENGTH

    def _end_by(self, token: int) -> None:
        self.finish_reason = FinishReason.STOP
        if token in self.request.stop_token_ids:
            self._stop = token
        if not self.request.include_stop_str_in_output:
            self._ended_by_token = True
        elif self._stops is not None:
            self._text.append(self._stops.push(self._detokenizer.push([token])).text)

    def cut(self) -> None:
        """End an answer that cannot go on, as if its room were used up."""
        self.finish_reason = self.finish_reason or FinishReason.LENGTH

    def frame(self) -> Frame:
        """A frame of everything that was accepted since the last one."""
        token_ids = self.tokens[self._framed :]
        self._framed = len(self.tokens)
        cached = min(self.cached, self.prompt_tokens)
        inputs = self.prompt_tokens - cached
        usage = TokenUsage(inputs, cached, self.output_tokens, self.busy_us)
        text, logprobs = self._text_of(token_ids), self._logprobs()
        ids = tuple(token_ids)
        prompt = self._prompt_logprobs()
        prefix, self._prefix_texts = self._prefix_texts, ()
        return Frame(text, ids, usage, self.finish_reason, logprobs, self._stop, prompt, prefix)

    def _prompt_logprobs(self) -> tuple[TokenLogprobs, ...] | None:
        if self._prompt_scores is None:
            return None
        scores, self._prompt_scores = self._prompt_scores, None
        first = Score(self.tokens[0], 0.0)  # nothing came before it
        return tuple(spelled(score, self._raw) for score in (first, *scores))

    def _logprobs(self) -> tuple[TokenLogprobs, ...] | None:
        if self.request.logprobs is None:
            return None
        scores, self._scores = self._scores, []
        return tuple(spelled(score, self._raw) for score in scores)

    def _completed_by(self, token: int) -> bool:
        """Whether the form of the answer is complete. Then no token may follow, so no further one
        is drawn."""
        if self.matcher is None:
            return False
        self.matcher.accept(token)
        if self.matcher.complete and self._stops is not None:
            self._stopped_by(token, early=False)  # for its text
        return self.matcher.complete

    def _stopped_by(self, token: int, early: bool) -> bool:
        """Whether a stop string ended the answer. It counts only once an answer may end."""
        if self._stops is None:
            return False
        text = self._detokenizer.push([token])
        if early:
            self._text.append(text)
            return False
        passed = self._stops.push(text)
        self._text.append(passed.text)
        self._stop = passed.stopped_by
        if passed.stopped_by is not None and self.request.include_stop_str_in_output:
            self._text.append(passed.stopped_by)
        return passed.stopped_by is not None

    def _text_of(self, token_ids: list[int]) -> str:
        """The text of tokens. Without stop strings no text is needed token by token, so it is
        decoded once a frame."""
        if self._stops is None:
            return self._detokenizer.push(token_ids[:-1] if self._ended_by_token else token_ids)
        if self.finish_reason is not None:
            self._text.append(self._stops.flush())
        text = "".join(self._text)
        self._text = []
        return text
