"""How much output the open answers will still have, by the lengths of those that ended here. Pure.
It says what a replica has before it. It decides nothing about an answer."""

from __future__ import annotations

WEIGHT = 0.05
"""Of the last answer in the running mean: some forty answers are remembered."""
UNKNOWN_SHARE = 0.5
"""Of its ceiling, what is expected of an answer before any has ended."""


class Outlook:
    def __init__(self) -> None:
        self._mean_tokens: float | None = None

    def ended(self, output_tokens: int) -> None:
        """Count an answer that came to its end."""
        if self._mean_tokens is None:
            self._mean_tokens = float(output_tokens)
        self._mean_tokens += WEIGHT * (output_tokens - self._mean_tokens)

    def tokens_left(self, output_tokens: int, output_tokens_max: int) -> int:
        """Of an open answer that has `output_tokens`. At least one: it has not ended."""
        most = output_tokens_max - output_tokens
        usual = self._mean_tokens
        if usual is None:
            usual = UNKNOWN_SHARE * output_tokens_max
        return max(1, min(most, round(usual) - output_tokens))
