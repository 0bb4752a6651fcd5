"""Which rules no call ever comes to: earlier ones take all of their calls, or no call meets all of
their clauses.

Pure. What it names is never matched, whatever the call. It finds every such rule whose clauses are
comparisons with literals, joined in any way; of any other condition it knows only that it is the
same where its text is the same. A rule with too many alternatives counts as one that is reached and
hides no other.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from routing.policy.alternatives import Alternatives, TooManyAlternatives, alternatives_of
from routing.policy.cells import Cells

BOXES_MAX: Final = 256
"""Into how many what is left of a rule may fall apart."""
STEPS_MAX: Final = 200_000
"""How often a box is taken from a box in one document."""

Box = Mapping[str, int]
"""Calls by the cells of each axis that they may lie in; an axis that is not there is free."""


class Unreached(NamedTuple):
    """`hidden_by` are the places of the earlier rules that take its calls; none where no call meets
    its clauses."""

    rule: int
    hidden_by: tuple[int, ...]


class _Rule(NamedTuple):
    """`calls`: at least those for which its clauses hold. `taken`: at most these."""

    calls: Sequence[Box]
    taken: Sequence[Box]


def unreached(rules: Sequence[Collection[str]]) -> tuple[Unreached, ...]:
    """`rules` are the clauses of each, in order. A rule without a clause takes every call."""
    read = [_alternatives(clauses) for clauses in rules]
    cells = Cells(each for rule in read if rule for alternative in rule for each in alternative)
    known, space = [_rule(alternatives, cells) for alternatives in read], _Space(cells)
    hidden = [_hiding(rule.calls, known[:place], space) for place, rule in enumerate(known)]
    return tuple([Unreached(place, by) for place, by in enumerate(hidden) if by is not None])


def _alternatives(clauses: Collection[str]) -> Alternatives | None:
    try:
        return alternatives_of(clauses)
    except TooManyAlternatives:
        return None


def _rule(alternatives: Alternatives | None, cells: Cells) -> _Rule:
    if alternatives is None:
        return _Rule(calls=({},), taken=())
    boxes: list[Box] = []
    for alternative in alternatives:
        box: dict[str, int] = {}
        for condition in alternative:
            axis, within = cells.constraint(condition)
            box[axis] = box.get(axis, cells.all_of(axis)) & within
        if all(box.values()):
            boxes.append(box)
    return _Rule(boxes, boxes)


def _hiding(
    calls: Sequence[Box], earlier: Sequence[_Rule], space: "_Space"
) -> tuple[int, ...] | None:
    """The places of the rules that leave nothing of these calls: one, if one is enough, else as few
    as it takes. None: something is left."""
    left, taking = calls, list[int]()
    for place, rule in enumerate(earlier):
        rest = space.without(left, rule.taken)
        if rest != left:
            left = rest
            taking.append(place)
    if left:
        return None
    for place in taking:
        if not space.without(calls, earlier[place].taken):
            return (place,)
    for place in tuple(taking):
        others = [each for each in taking if each != place]
        if not space.without(calls, [box for each in others for box in earlier[each].taken]):
            taking = others
    return tuple(taking)


class _Space:
    """Takes boxes from boxes, until it has done so often enough. Then everything is left."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._steps_left = STEPS_MAX

    def without(self, calls: Sequence[Box], taken: Iterable[Box]) -> Sequence[Box]:
        """The calls that none of the boxes takes."""
        for box in taken:
            self._steps_left -= len(calls)
            if self._steps_left < 0:
                return calls
            left = [piece for each in calls for piece in self._pieces(each, box)]
            if len(left) > BOXES_MAX:
                return calls
            calls = left
        return calls

    def _pieces(self, box: Box, taken: Box) -> Sequence[Box]:
        """What lies outside of `taken`, in pieces that have nothing in common."""
        all_of = self._cells.all_of
        inside = {axis: box.get(axis, all_of(axis)) & within for axis, within in taken.items()}
        if not all(inside.values()):
            return (box,)
        pieces, rest = list[Box](), dict(box)
        for axis, within in taken.items():
            if outside := rest.get(axis, all_of(axis)) & ~within:
                pieces.append({**rest, axis: outside})
            rest[axis] = inside[axis]
        return pieces
