"""One request while it runs: its tokens, how many of them the rows hold, and the text already out.
Guards the law that frames count every token exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workers.engines.base import (
    FinishReason,
    Frame,
    GenerationRequest,
    TokenLogprobs,
    TokenUsage,
)
from workers.engines.continuous.detokenize import Detokenizer
from workers.engines.continuous.logprobs import Score, spelled
from workers.engines.continuous.sampling import Draw, uniform
from workers.engines.continuous.stops import StopMatcher
from workers.engines.guides import Matcher


class RunningSequence:
    def __init__(
        self,
        request: GenerationRequest,
        *,
        context_tokens: int,
        eos_token_ids: frozenset[int],
        decode: Callable[[Sequence[int]], str],
        raw: Callable[[int], bytes],
        matcher: Matcher | None = None,
    ) -> None:
        """`matcher` where this engine holds the answer to its constraint itself."""
        self.request = request
        self.tokens = list(request.prompt_token_ids)
        self.computed = 0  # tokens whose keys and values are in the row
        self.cached = 0  # of them, how many came from the prefix cache
        self.busy_us = 0  # its share of the time that was computed
        room = context_tokens - self.prompt_tokens
        self._tokens_max = room if request.tokens_max is None else min(request.tokens_max, room)
        self._eos_token_ids = frozenset() if request.ignore_eos else eos_token_ids
        self._detokenizer = Detokenizer(decode)
        self._stops = StopMatcher(request.stop) if request.stop else None
        self.finish_reason: FinishReason | None = None
        self._stop: str | None = None  # the stop string that ended it
        self._framed = self.prompt_tokens  # tokens that are already in a frame
        self._text: list[str] = []
        self._raw = raw
        self._scores: list[Score] = []  # of accepted tokens that are in no frame yet
        self._penal = bool(request.presence_penalty or request.frequency_penalty)
        self.counts: dict[int, int] = {}  # of each token of the answer, where there are penalties
        self.matcher = matcher
        self._ended_by_token = False

    @property
    def call_id(self) -> str:
        return self.request.call_id or self.request.request_id

    @property
    def prompt_tokens(self) -> int:
        return len(self.request.prompt_token_ids)

    @property
    def prompt_remaining(self) -> int:
        return self.prompt_tokens - self.computed

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens

    @property
    def urgent(self) -> bool:
        """A first token and a last one are waited for; those between may ride together, unless
        the caller pays for every token to leave at once."""
        if self.request.immediate:
            return True
        return self.finish_reason is not None or self._framed == self.prompt_tokens

    @property
    def shapes(self) -> bool:
        """The next token is not drawn from the model's logits as they are."""
        return bool(self.request.logit_bias or self.counts) or self.matcher is not None

    def draw(self) -> Draw:
        """For the token that comes next."""
        request = self.request
        return Draw(request.temperature, request.top_p, uniform(request.seed, self.output_tokens))

    def accept(self, token: int, score: Score | None = None) -> None:
        """Append a sampled token, and decide whether it was the last."""
        self.tokens.append(token)
        if score is not None:
            self._scores.append(score)
        if self._penal:
            self.counts[token] = self.counts.get(token, 0) + 1
        if self.matcher is not None and self.matcher.broken:
            self.finish_reason = FinishReason.LENGTH  # the token was drawn from any
        elif token in self._eos_token_ids:
            self._ended_by_token = True
            self.finish_reason = FinishReason.STOP
        elif self._completed_by(token) or self._stopped_by(token):
            self.finish_reason = FinishReason.STOP
        elif self.output_tokens >= self._tokens_max:
            self.finish_reason = FinishReason.LENGTH

    def cut(self) -> None:
        """End an answer that cannot go on, as if there had been no more room."""
        self.finish_reason = self.finish_reason or FinishReason.LENGTH

    def frame(self) -> Frame:
        """Everything accepted since the last frame."""
        token_ids = self.tokens[self._framed :]
        self._framed = len(self.tokens)
        inputs = self.prompt_tokens - self.cached
        usage = TokenUsage(inputs, self.cached, self.output_tokens, self.busy_us)
        text, logprobs = self._text_of(token_ids), self._logprobs()
        ids = tuple(token_ids)
        return Frame(text, ids, usage, self.finish_reason, logprobs, self._stop)

    def _logprobs(self) -> tuple[TokenLogprobs, ...] | None:
        if self.request.logprobs is None:
            return None
        taken, self._scores = self._scores, []
        return tuple(spelled(score, self._raw) for score in taken)

    def _completed_by(self, token: int) -> bool:
        """The form of the answer is complete: no token may follow, so none is asked for."""
        if self.matcher is None:
            return False
        self.matcher.accept(token)
        if self.matcher.complete and self._stops is not None:
            self._stopped_by(token)  # for its text
        return self.matcher.complete

    def _stopped_by(self, token: int) -> bool:
        if self._stops is None:
            return False
        passed = self._stops.push(self._detokenizer.push([token]))
        self._text.append(passed.text)
        self._stop = passed.stopped_by
        return passed.stopped_by is not None

    def _text_of(self, token_ids: list[int]) -> str:
        """Without stop strings nobody needs text token by token, so it is decoded once a frame."""
        if self._stops is None:
            return self._detokenizer.push(token_ids[:-1] if self._ended_by_token else token_ids)
        if self.finish_reason is not None:
            self._text.append(self._stops.flush())
        text = "".join(self._text)
        self._text = []
        return text
