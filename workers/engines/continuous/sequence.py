"""One request while it runs: its tokens, how many of them the rows hold, and the text already out.
Guards the law that frames count every token exactly once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workers.engines.base import FinishReason, Frame, GenerationRequest, TokenUsage
from workers.engines.continuous.detokenize import Detokenizer
from workers.engines.continuous.sampling import Draw, uniform
from workers.engines.continuous.stops import StopMatcher


class RunningSequence:
    def __init__(
        self,
        request: GenerationRequest,
        *,
        context_tokens: int,
        eos_token_ids: frozenset[int],
        decode: Callable[[Sequence[int]], str],
    ) -> None:
        self.request = request
        self.tokens = list(request.prompt_token_ids)
        self.computed = 0  # tokens whose keys and values are in the row
        self.cached = 0  # of them, how many came from the prefix cache
        room = context_tokens - self.prompt_tokens
        self._tokens_max = room if request.tokens_max is None else min(request.tokens_max, room)
        self._eos_token_ids = frozenset() if request.ignore_eos else eos_token_ids
        self._detokenizer = Detokenizer(decode)
        self._stops = StopMatcher(request.stop)

    @property
    def prompt_tokens(self) -> int:
        return len(self.request.prompt_token_ids)

    @property
    def prompt_remaining(self) -> int:
        return self.prompt_tokens - self.computed

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - self.prompt_tokens

    def draw(self) -> Draw:
        """For the token that comes next."""
        request = self.request
        return Draw(request.temperature, request.top_p, uniform(request.seed, self.output_tokens))

    def accept(self, token: int) -> Frame:
        """Append a sampled token; the frame says if it was the last."""
        self.tokens.append(token)
        if token in self._eos_token_ids:
            return self._frame(token, self._stops.flush(), FinishReason.STOP)
        passed = self._stops.push(self._detokenizer.push([token]))
        if passed.stopped:
            return self._frame(token, passed.text, FinishReason.STOP)
        if self.output_tokens >= self._tokens_max:
            return self._frame(token, passed.text + self._stops.flush(), FinishReason.LENGTH)
        return self._frame(token, passed.text, None)

    def _frame(self, token: int, text: str, finish_reason: FinishReason | None) -> Frame:
        usage = TokenUsage(self.prompt_tokens - self.cached, self.cached, self.output_tokens)
        return Frame(text, (token,), usage, finish_reason)
