"""The values of each attribute, cut into cells in which a document's comparisons do not tell one
value from another. A set of values is an integer with a bit for each cell.

Pure. What is no comparison of an attribute with a literal is a thing of its own, which is true,
false or an error.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from math import ceil, floor
from typing import Any, Final, NamedTuple

from routing.policy.alternatives import Condition
from routing.policy.attributes import BY_NAME, Attribute, AttributeKind
from routing.policy.conditions import Comparison, InvalidClause, clause, comparison

CELLS_MAX: Final = 512
"""Of an attribute. Comparisons of one that has more are not read."""
TRUE, FALSE, ALL = 0b001, 0b010, 0b111
"""Of what is no comparison. The third cell is an error."""
OTHER: Final = object()
"""Every text that no comparison names."""
_SIGNS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "in": lambda one, other: one in other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}
_NUMBERS: Final = (AttributeKind.INT, AttributeKind.DOUBLE)


class Constraint(NamedTuple):
    """What a condition leaves of one axis: an attribute, or what is no comparison."""

    axis: str
    cells: int


class Cells:
    """Of the conditions of one document."""

    def __init__(self, conditions: Iterable[Condition]) -> None:
        literals: dict[str, set[Any]] = {}
        for text in {condition.text for condition in conditions}:
            if (compared := _compared(text)) is not None:
                values = compared.value if compared.sign == "in" else [compared.value]
                literals.setdefault(compared.name, set()).update(values)
        values = {name: _values(BY_NAME[name], constants) for name, constants in literals.items()}
        self._values = {name: each for name, each in values.items() if len(each) <= CELLS_MAX}
        self._known: dict[Condition, Constraint] = {}

    def all_of(self, axis: str) -> int:
        values = self._values.get(axis)
        return ALL if values is None else (1 << len(values)) - 1

    def constraint(self, condition: Condition) -> Constraint:
        if condition not in self._known:
            self._known[condition] = self._constraint(condition)
        return self._known[condition]

    def _constraint(self, condition: Condition) -> Constraint:
        compared = _compared(condition.text)
        if compared is not None and compared.name in self._values:
            meets = _SIGNS[compared.sign]
            cells = sum(
                1 << place
                for place, value in enumerate(self._values[compared.name])
                if meets(value, compared.value)
            )
            every = self.all_of(compared.name)
            return Constraint(compared.name, cells if condition.holds else every & ~cells)
        axis, known = f"? {condition.text}", _constant(condition)
        if known is not None:
            return Constraint(axis, ALL if known else 0)
        return Constraint(axis, TRUE if condition.holds else FALSE)


def _compared(text: str) -> Comparison | None:
    """A comparison that is true or false for each of the values: texts are not put in order."""
    compared = comparison(text)
    if compared is None:
        return None
    kind, (_, sign, value) = BY_NAME[compared.name].kind, compared
    if kind in _NUMBERS:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    elif kind is AttributeKind.STRING:
        fits = isinstance(value, str | frozenset) and sign in ("==", "!=", "in")
    else:
        fits = kind is AttributeKind.BOOL and isinstance(value, bool) and sign in ("==", "!=")
    return compared if fits else None


def _constant(condition: Condition) -> bool | None:
    """Whether it holds; None where that depends on a call."""
    text = condition.text
    if any(name in text for name in BY_NAME):
        return None
    try:
        checked = clause(text if condition.holds else f"!({text})")
    except InvalidClause:
        return None
    return None if checked.names else checked.holds({})


def _values(attribute: Attribute, literals: set[Any]) -> Sequence[Any]:
    """One of each cell."""
    if attribute.kind is AttributeKind.BOOL:
        return (True, False)
    if attribute.kind is AttributeKind.STRING:
        return attribute.words or (*sorted(literals), OTHER)
    return _numbers(attribute, literals)


def _numbers(attribute: Attribute, literals: set[float]) -> list[float]:
    """Each literal, one number between each two of them, and one below and above all."""
    least, most = attribute.least, attribute.most
    ends = [end for end in (least, most) if end is not None]
    points = sorted({*literals, *ends})
    between = [_between(attribute, low, high) for low, high in pairwise(points)]
    numbers = [floor(points[0]) - 1, *points, *between, ceil(points[-1]) + 1]
    return [
        number
        for number in numbers
        if number is not None
        and (attribute.kind is AttributeKind.DOUBLE or number == floor(number))
        and (least is None or number >= least)
        and (most is None or number <= most)
    ]


def _between(attribute: Attribute, low: float, high: float) -> float | None:
    if attribute.kind is AttributeKind.DOUBLE:
        return (low + high) / 2
    return whole if (whole := floor(low) + 1) < high else None
