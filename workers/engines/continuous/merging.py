"""Frames of one sequence that leave as one."""

from __future__ import annotations

from collections.abc import Sequence

from workers.engines.base import Frame, TokenLogprobs


def merge(frames: Sequence[Frame]) -> Frame:
    """Usage is cumulative, so the last frame's is everyone's."""
    return Frame(
        text="".join(frame.text for frame in frames),
        token_ids=tuple(token for frame in frames for token in frame.token_ids),
        usage=frames[-1].usage,
        finish_reason=frames[-1].finish_reason,
        logprobs=_joined([frame.logprobs for frame in frames]),
        stopped_by=frames[-1].stopped_by,
    )


def _joined(
    parts: Sequence[tuple[TokenLogprobs, ...] | None],
) -> tuple[TokenLogprobs, ...] | None:
    """All frames of a request have theirs, or none has."""
    asked = [part for part in parts if part is not None]
    return tuple(entry for part in asked for entry in part) if asked else None
