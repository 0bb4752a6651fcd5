"""How long answers get, and how many tokens a prompt has whose bytes alone are known.

Lengths are counted in buckets that grow by a fifth, each scope for itself: a key where it has
enough, else its organization, else the model, else a prior. An answer that its ceiling cut was
longer than it was seen to be, and is counted so (Kaplan and Meier, 1958). Bounded: BUCKETS numbers
a scope, and SCOPES_MAX scopes, of which the one used longest ago goes first.
"""

from collections import OrderedDict
from math import exp, log
from typing import NamedTuple

GROWTH = log(1.2)
BUCKETS = 80
"""The last one begins at 1.8 million tokens."""
SCOPES_MAX = 4096
ENOUGH = 20.0
"""Observations from which a scope is believed."""
FORGETTING = 0.998
WEIGHT_MAX = 1e6
BEHIND_SHARE = 0.04
"""Of the answers of a scope, those that its curve may lack: it costs more than one answer."""
PRIOR_MEDIAN_TOKENS = 180.0
"""Of an answer whose model nobody asked yet: chats of public traces have such medians."""
PRIOR_PROMPT = (2000.0, 500.0)
"""Bytes and tokens of what is believed before anything was observed."""
BYTES_FORGETTING = 0.98


class Scope(NamedTuple):
    """Whose answers. An empty organization or key: everybody's of the model."""

    model: str
    organization: str = ""
    key: str = ""


class _Curve(NamedTuple):
    """By bucket: the share of answers that go beyond it, and the sum of the lengths of those that
    do not, each by its share of all answers."""

    surviving: list[float]
    ended_tokens: list[float]


class _Counts:
    """What is forgotten weighs ever less beside the new: so the new weighs ever more, and the sums
    are cut down before they get too large."""

    __slots__ = ("_behind", "_curve", "_cut", "_ended", "_sum", "_weight")

    def __init__(self) -> None:
        self._ended, self._cut = [0.0] * BUCKETS, [0.0] * BUCKETS
        self._sum, self._weight = 0.0, 1.0
        self._curve: _Curve | None = None
        self._behind = 0

    @property
    def total(self) -> float:
        """Answers that are not forgotten, by their weight."""
        return self._sum / self._weight

    def take(self, tokens: int, was_cut: bool) -> None:
        self._weight /= FORGETTING
        if self._weight > WEIGHT_MAX:
            self._cut_down()
        (self._cut if was_cut else self._ended)[_bucket(tokens)] += self._weight
        self._sum += self._weight
        self._behind += 1

    def _cut_down(self) -> None:
        for counts in (self._ended, self._cut):
            counts[:] = [count / self._weight for count in counts]
        self._sum, self._weight = self._sum / self._weight, 1.0

    @property
    def curve(self) -> _Curve:
        """Made anew once it lacks a twenty-fifth of what was observed."""
        if self._curve is None or self._behind > BEHIND_SHARE * self.total:
            self._curve, self._behind = self._made(), 0
        return self._curve

    def _made(self) -> _Curve:
        at_risk, alive, ended_tokens = self._sum, 1.0, 0.0
        curve = _Curve([], [])
        for bucket, (ended, cut) in enumerate(zip(self._ended, self._cut, strict=True)):
            before = alive
            if at_risk > 1e-9 * self._weight:
                alive *= max(0.0, 1 - ended / at_risk)
            ended_tokens += (before - alive) * _middle(bucket)
            curve.surviving.append(alive)
            curve.ended_tokens.append(ended_tokens)
            at_risk -= ended + cut
        return curve


class Lengths:
    """Learns lengths of answers by model, organization and key."""

    def __init__(self) -> None:
        self._scopes: OrderedDict[Scope, _Counts] = OrderedDict()

    def observe(self, scope: Scope, tokens: int, ceiling: int) -> None:
        """An answer of `tokens` that was allowed `ceiling`."""
        for each in _widening(scope):
            counts = self._scopes.setdefault(each, _Counts())
            self._scopes.move_to_end(each)
            counts.take(tokens, tokens >= ceiling)
        while len(self._scopes) > SCOPES_MAX:
            self._scopes.popitem(last=False)

    def quantile(self, scope: Scope, quantile: float, ceiling: int) -> float:
        """Tokens that this share of answers does not pass; never above the ceiling."""
        counts = self._believed(scope)
        if counts is None:
            return _prior(quantile, ceiling)
        for bucket, share in enumerate(counts.curve.surviving):
            if 1 - share >= quantile:
                return min(float(ceiling), _middle(bucket))
        return float(ceiling)

    def expected(self, scope: Scope, ceiling: int) -> float:
        """The mean length of an answer that ends at the ceiling at the latest."""
        counts = self._believed(scope)
        if counts is None:
            return _prior(0.5, ceiling)
        whole = _whole_buckets(ceiling)
        if not whole:
            return float(ceiling)
        curve = counts.curve
        expected = curve.ended_tokens[whole - 1] + curve.surviving[whole - 1] * ceiling
        return min(float(ceiling), expected)

    def _believed(self, scope: Scope) -> _Counts | None:
        for each in _widening(scope):
            counts = self._scopes.get(each)
            if counts is not None and counts.total >= ENOUGH:
                return counts
        return None

    def __len__(self) -> int:
        return len(self._scopes)


class TokensOfBytes:
    """How many bytes of prompts make a token, by model. The bytes stay the bound that is held.

    Sums are compared, and not each call's own ratio: what a server wraps around a prompt weighs
    most in the shortest ones."""

    def __init__(self) -> None:
        self._sums: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def observe(self, model: str, prompt_bytes: int, tokens: int) -> bool:
        """False for what cannot be: more tokens than bytes, or nothing."""
        if not 0 < tokens <= prompt_bytes:
            return False
        of_bytes, of_tokens = self._sums.get(model, PRIOR_PROMPT)
        of_bytes = BYTES_FORGETTING * of_bytes + prompt_bytes
        self._sums[model] = (of_bytes, BYTES_FORGETTING * of_tokens + tokens)
        self._sums.move_to_end(model)
        while len(self._sums) > SCOPES_MAX:
            self._sums.popitem(last=False)
        return True

    def expected(self, model: str, prompt_bytes: int) -> int:
        """Never more than the bytes."""
        of_bytes, of_tokens = self._sums.get(model, PRIOR_PROMPT)
        likely = max(1, round(prompt_bytes * of_tokens / of_bytes))
        return min(prompt_bytes, likely) if prompt_bytes else 0


def _widening(scope: Scope) -> tuple[Scope, ...]:
    model, organization, key = scope
    wide = (Scope(model, organization), Scope(model)) if organization else (Scope(model),)
    return (scope, *wide) if key else wide


def _bucket(tokens: int) -> int:
    return min(BUCKETS - 1, int(log(max(1, tokens)) / GROWTH))


def _whole_buckets(ceiling: int) -> int:
    """How many buckets have their middle below a ceiling."""
    if ceiling <= _middle(0):
        return 0
    count = min(BUCKETS, int(log(ceiling) / GROWTH + 0.5))
    return count if _middle(count - 1) < ceiling else count - 1


def _middle(bucket: int) -> float:
    return exp((bucket + 0.5) * GROWTH)


def _prior(quantile: float, ceiling: int) -> float:
    """A log-logistic around PRIOR_MEDIAN_TOKENS, cut at the ceiling."""
    odds = quantile / (1 - quantile)
    return min(float(ceiling), PRIOR_MEDIAN_TOKENS * exp(0.7 * log(odds)))
