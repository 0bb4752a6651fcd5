"""Which rules no call ever comes to: an earlier one takes all of their calls, or their clauses
contradict each other.

Pure. What it names is never matched, whatever the call; it does not find every such rule, since it
reads comparisons with literals only and takes any other clause as it is written.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from routing.policy.conditions import Comparison, comparison

_MIRRORED: Final = {"<", "<=", ">", ">="}


class Unreached(NamedTuple):
    """`hidden_by` is the place of the earlier rule; None where the clauses contradict."""

    rule: int
    hidden_by: int | None


def unreached(rules: Sequence[Collection[str]]) -> tuple[Unreached, ...]:
    """`rules` are the clauses of each, in order. A rule without a clause takes every call."""
    clauses_of_rules = [_Clauses.of(clauses) for clauses in rules]
    rules_unreached: list[Unreached] = []
    for place, rule in enumerate(clauses_of_rules):
        if rule.is_contradictory:
            rules_unreached.append(Unreached(place, None))
        elif (earlier := _first(clauses_of_rules[:place], rule)) is not None:
            rules_unreached.append(Unreached(place, earlier))
    return tuple(rules_unreached)


def _first(before: Sequence["_Clauses"], rule: "_Clauses") -> int | None:
    hiding = (place for place, earlier in enumerate(before) if earlier.holds_wherever(rule))
    return next(hiding, None)


class _Clauses(NamedTuple):
    """The clauses of a rule: their texts, and by attribute what the comparisons among them say."""

    texts: frozenset[str]
    by_name: Mapping[str, Sequence[Comparison]]

    @classmethod
    def of(cls, clauses: Iterable[str]) -> "_Clauses":
        texts = frozenset([text.strip() for text in clauses]) - {"true"}
        by_name: dict[str, list[Comparison]] = {}
        for text in texts:
            for part in () if "||" in text else text.split("&&"):
                if (compared := comparison(part)) is not None:
                    by_name.setdefault(compared.name, []).append(compared)
        return cls(texts, by_name)

    @property
    def is_contradictory(self) -> bool:
        return "false" in self.texts or any(
            _Possible.of(comparisons).is_nothing for comparisons in self.by_name.values()
        )

    def holds_wherever(self, other: "_Clauses") -> bool:
        """Whether a call for which the other's clauses hold is one for which these hold."""
        return all(text in other.texts or other._implies(text) for text in self.texts)

    def _implies(self, text: str) -> bool:
        """Some alternative of the text follows from these clauses."""
        return any(
            all(self._implies_part(part) for part in alternative.split("&&"))
            for alternative in text.split("||")
        )

    def _implies_part(self, part: str) -> bool:
        compared = comparison(part)
        if compared is None:
            return part.strip() in self.texts
        return _Possible.of(self.by_name.get(compared.name, ())).all_meet(compared)


class _Possible(NamedTuple):
    """The values that some comparisons leave to one attribute: those between `low` and `high`, of
    these only `among` where that is not None, and none of `never`. A bound itself is out where it
    is open."""

    low: float
    low_is_open: bool
    high: float
    high_is_open: bool
    among: frozenset[Any] | None
    never: frozenset[Any]

    @classmethod
    def of(cls, comparisons: Iterable[Comparison]) -> "_Possible":
        possible = cls(-inf, False, inf, False, None, frozenset())
        for compared in comparisons:
            possible = possible._less(compared.sign, compared.value)
        if possible.among is None:
            return possible
        return possible._replace(among=frozenset(filter(possible._has, possible.among)))

    def _less(self, sign: str, value: Any) -> "_Possible":
        if sign in ("==", "in"):
            values = value if sign == "in" else frozenset([value])
            return self._replace(among=values if self.among is None else self.among & values)
        if sign == "!=":
            if isinstance(value, bool):
                return self._less("==", not value)
            return self._replace(never=self.never | {value})
        if isinstance(value, str):
            return self
        is_open = sign in ("<", ">")
        if sign in (">", ">="):
            low, low_is_open = max((self.low, self.low_is_open), (value, is_open))
            return self._replace(low=low, low_is_open=low_is_open)
        high, closed = min((self.high, not self.high_is_open), (value, not is_open))
        return self._replace(high=high, high_is_open=not closed)

    def _has(self, value: Any) -> bool:
        if value in self.never:
            return False
        if isinstance(value, str | bool):
            return True
        above = value > self.low or (value == self.low and not self.low_is_open)
        return above and (value < self.high or (value == self.high and not self.high_is_open))

    @property
    def is_nothing(self) -> bool:
        if self.among is not None:
            return not self.among
        return self.low > self.high or (
            self.low == self.high and (self.low_is_open or self.high_is_open)
        )

    def all_meet(self, compared: Comparison) -> bool:
        """Whether every value that is left meets the comparison."""
        sign, value = compared.sign, compared.value
        if self.among is not None:
            return all(_meets(each, sign, value) for each in self.among)
        if sign == "!=" and not isinstance(value, bool):
            return not self._has(value)
        if isinstance(value, str) or sign not in _MIRRORED:
            return False
        if sign in (">", ">="):
            return self.low > value or (self.low == value and (self.low_is_open or sign == ">="))
        return self.high < value or (self.high == value and (self.high_is_open or sign == "<="))


_SIGNS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": lambda one, other: one == other,
    "!=": lambda one, other: one != other,
    "in": lambda one, other: one in other,
    "<": lambda one, other: one < other,
    "<=": lambda one, other: one <= other,
    ">": lambda one, other: one > other,
    ">=": lambda one, other: one >= other,
}


def _meets(one: Any, sign: str, other: Any) -> bool:
    return _SIGNS[sign](one, other)
