"""What differs between two documents, in words. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from gateway.policies.difference import ChangedPart, ChangeKind, PolicyChange, WordChange

PARTS = {ChangedPart.RULE: "rule", ChangedPart.DEFAULT: "the", ChangedPart.TEST: "test"}


@dataclass(frozen=True, slots=True)
class ChangeView:
    kind: str
    part: str
    name: str
    where: str
    words: tuple[WordChange, ...]


def change_views(changes: Sequence[PolicyChange]) -> tuple[ChangeView, ...]:
    return tuple(
        [
            ChangeView(each.kind.value, PARTS[each.part], each.name, _where(each), each.words)
            for each in changes
        ]
    )


def _where(change: PolicyChange) -> str:
    """Only rules have an order that counts."""
    if change.part is not ChangedPart.RULE:
        return ""
    match change.kind:
        case ChangeKind.ADDED:
            return f"as number {change.after}"
        case ChangeKind.REMOVED:
            return f"it was number {change.before}"
        case ChangeKind.MOVED:
            return f"from number {change.before} to {change.after}"
        case ChangeKind.CHANGED:
            return f"number {change.after}"
