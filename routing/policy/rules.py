"""Which rule of a policy a call falls under: the first one whose clauses all hold, or the default.

Pure: the same attributes and policy give the same rule. Owns the order of rules, the sticky share
of a canary and the trace that explain shows. Knows no YAML and no version's history.
"""

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final, NamedTuple

from routing.policy.action import DEFAULT_RULE, Action, Matched
from routing.policy.attributes import Attributes
from routing.policy.conditions import Clause

SHARES: Final = 100_000
"""A share is counted in hundred-thousandths, thousandths of a percent."""


class StickyBy(StrEnum):
    """Whose calls stay together on one side of a canary."""

    ORGANIZATION = "organization"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class Canary:
    """Another action for a share of the callers. A larger share keeps those of a smaller one, and
    the same salt chooses the same callers in several rules."""

    action: Action
    share: int
    """Of `SHARES`."""
    salt: str
    by: StickyBy = StickyBy.ORGANIZATION

    def takes(self, attributes: Attributes) -> bool:
        caller = attributes[f"tenant.{self.by}"]
        digest = sha256(f"{self.salt}{caller}".encode("utf-8", "surrogatepass")).digest()
        return int.from_bytes(digest, "big") % SHARES < self.share


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to calls for which every clause holds. Without a clause: to all of them."""

    id: str
    when: tuple[Clause, ...]
    action: Action
    canary: Canary | None = None
    shadow: Action | None = None

    @property
    def actions(self) -> tuple[Action, ...]:
        """Of which one is taken."""
        return (self.action,) if self.canary is None else (self.action, self.canary.action)


class RuleTrace(NamedTuple):
    """A rule that was asked, with the answer of each clause."""

    rule: str
    clauses: tuple[tuple[str, bool], ...]

    @property
    def holds(self) -> bool:
        return all(held for _, held in self.clauses)


@dataclass(frozen=True, slots=True)
class RoutingPolicy:
    """A revision of the operator's policy, ready to match."""

    revision: int
    rules: tuple[Rule, ...]
    default: Rule

    def match(self, attributes: Attributes) -> Matched:
        """The rule of a call. `attributes` has a value for each declared name."""
        for rule in self.rules:
            for clause in rule.when:
                if not clause.holds(attributes):
                    break
            else:
                return self._matched(rule, attributes)
        return self._matched(self.default, attributes)

    @property
    def larger_models(self) -> tuple[str, ...]:
        """Every model that some rule names for calls that are too long for theirs."""
        actions = [action for rule in (*self.rules, self.default) for action in rule.actions]
        return tuple(dict.fromkeys([name for each in actions for name in each.larger_models]))

    def reads(self, name: str) -> bool:
        """Whether some clause may read an attribute."""
        return any(name in clause.names for rule in self.rules for clause in rule.when)

    def trace(self, attributes: Attributes) -> tuple[RuleTrace, ...]:
        """Each rule that was asked, up to the one that `match` names. The default has no clause."""
        traces: list[RuleTrace] = []
        for rule in self.rules:
            clauses = tuple([(clause.text, clause.holds(attributes)) for clause in rule.when])
            traces.append(RuleTrace(rule.id, clauses))
            if traces[-1].holds:
                return tuple(traces)
        return (*traces, RuleTrace(DEFAULT_RULE, ()))

    def _matched(self, rule: Rule, attributes: Attributes) -> Matched:
        canary = rule.canary
        if canary is None:
            return Matched(rule.id, self.revision, rule.action, rule.shadow)
        is_canary = canary.takes(attributes)
        action = canary.action if is_canary else rule.action
        return Matched(rule.id, self.revision, action, rule.shadow, is_canary)
