"""Merges frames of one sequence into one."""

from __future__ import annotations

from collections.abc import Sequence

from workers.engines.base import Frame, TokenLogprobs


def merge(frames: Sequence[Frame]) -> Frame:
    """The frames as one. Usage is cumulative, so the last frame's is that of all."""
    return Frame(
        text="".join(frame.text for frame in frames),
        token_ids=tuple(token for frame in frames for token in frame.token_ids),
        usage=frames[-1].usage,
        finish_reason=frames[-1].finish_reason,
        logprobs=_joined([frame.logprobs for frame in frames]),
        stopped_by=frames[-1].stopped_by,
        prompt_logprobs=frames[0].prompt_logprobs,
        prefix_texts=frames[0].prefix_texts,
    )


def _joined(
    parts: Sequence[tuple[TokenLogprobs, ...] | None],
) -> tuple[TokenLogprobs, ...] | None:
    """The log probabilities of all frames. Either all frames of a request have them, or none
    has."""
    chunks = [part for part in parts if part is not None]
    return tuple(entry for part in chunks for entry in part) if chunks else None
