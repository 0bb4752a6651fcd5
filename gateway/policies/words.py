"""A policy as an operator writes it: its words, each declared once.

`/admin/v1/policies/schema` is made of the same declaration. Knows no places in a text and nothing
of what the catalogue has.
"""

from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from billing.money import nanousd
from gateway.catalog.model import ModelName
from routing.policy.action import (
    Action,
    ColdStart,
    Fallbacks,
    Hedge,
    LatencyPreference,
    OnExceed,
    PriceBound,
    Retries,
    Sort,
    Target,
    Timeouts,
)
from routing.policy.conditions import Clause
from routing.policy.narrow import target
from routing.policy.rules import SHARES, Canary, Rule, StickyBy

RULES_MAX: Final = 100
CLAUSES_MAX: Final = 16
TARGETS_MAX: Final = 100
FALLBACKS_MAX: Final = 10
RETRIES_MOST: Final = 20
WAIT_MS_MOST: Final = 60_000


class _Words(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, arbitrary_types_allowed=True)


class SortWords(_Words):
    by: Sort


def _usd(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError('an amount of USD is wanted, as "1.20"')
    amount = nanousd(value if isinstance(value, str) else f"{Decimal(repr(value)):f}")
    if amount < 0:
        raise ValueError("an amount is not negative")
    return amount


def _target(value: Any) -> Target:
    if not isinstance(value, str):
        raise ValueError("a text is wanted: pool:NAME or provider:NAME")
    return target(value)


def _sort(value: Any) -> Any:
    """`sort: price` and `sort: {by: price}` are the same."""
    by = value["by"] if isinstance(value, dict) and set(value) == {"by"} else value
    return _one_of(Sort, by)


def _one_of(words: type[StrEnum], value: Any) -> Any:
    if not isinstance(value, str) or value not in list(words):
        raise ValueError("this is to be one of " + ", ".join(f"'{word}'" for word in words))
    return words(value)


UsdText = Annotated[int, BeforeValidator(_usd, json_schema_input_type=str | float)]
TargetText = Annotated[Target, BeforeValidator(_target, json_schema_input_type=str)]
SortText = Annotated[Sort, BeforeValidator(_sort, json_schema_input_type=Sort | SortWords)]
OnExceedText = Annotated[OnExceed, BeforeValidator(lambda value: _one_of(OnExceed, value))]
StickyByText = Annotated[StickyBy, BeforeValidator(lambda value: _one_of(StickyBy, value))]
Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]


ModelList = Annotated[list[ModelName], Field(max_length=FALLBACKS_MAX)]


class MaxPriceWords(_Words):
    """The most that a pool may cost us for a million tokens, in USD."""

    in_per_1m: UsdText | None = None
    out_per_1m: UsdText | None = None


class LatencyWords(_Words):
    """Expected milliseconds to the first token; a slower pool comes behind."""

    p50_ttft_ms: Annotated[float, Field(gt=0)] | None = None
    p90_ttft_ms: Annotated[float, Field(gt=0)] | None = None
    p95_ttft_ms: Annotated[float, Field(gt=0)] | None = None
    p99_ttft_ms: Annotated[float, Field(gt=0)] | None = None


class ColdStartWords(_Words):
    """The longest start that a call waits for, and what then."""

    max_wait_ms: Annotated[float, Field(ge=0)]
    on_exceed: OnExceedText = OnExceed.FALLBACK


class HedgeWords(_Words):
    """A second attempt of a priority call beside one that is slow: after so many milliseconds, else
    as the first pool's times say; and for how large a share of these calls at most."""

    after_ms: Annotated[float, Field(gt=0)] | None = None
    share: Annotated[float, Field(ge=0, le=1)] = Hedge().share


class RetryWords(_Words):
    """How many attempts a call has beyond its first one, and the longest `retry-after` that it
    waits out."""

    max: Annotated[int, Field(ge=0, le=RETRIES_MOST)] = Retries().most
    retry_after_max_ms: Annotated[float, Field(ge=0, le=WAIT_MS_MOST)] = (
        Retries().retry_after_s_max * 1000
    )


class TimeoutWords(_Words):
    """How long each attempt may take to connect and for its first token, and be silent then."""

    connect_ms: Annotated[float, Field(gt=0)] | None = None
    first_token_ms: Annotated[float, Field(gt=0)] | None = None
    idle_ms: Annotated[float, Field(gt=0)] | None = None


class FallbackWords(_Words):
    """Other models by the cause that the first one fails for."""

    general: ModelList = []
    context_window: ModelList = []
    budget: ModelList = []


def _fallbacks(value: Any) -> Any:
    """`fallbacks: [a]` and `fallbacks: {general: [a]}` are the same."""
    return {"general": value} if isinstance(value, list) else value


class RouteWords(_Words):
    """What is done with a call. A word that is left out changes nothing."""

    only: Annotated[list[TargetText], Field(min_length=1, max_length=TARGETS_MAX)] | None = None
    order: Annotated[list[TargetText], Field(max_length=TARGETS_MAX)] = []
    ignore: Annotated[list[TargetText], Field(max_length=TARGETS_MAX)] = []
    sort: SortText | None = None
    max_price: MaxPriceWords = MaxPriceWords()
    preferred_max_latency: LatencyWords | None = None
    allow_fallbacks: bool = True
    quantizations: list[str] | None = None
    data_collection: Literal["allow", "deny"] = "allow"
    use_case: Name | None = None
    min_quality: Annotated[float, Field(ge=0, le=1)] | None = None
    regions: list[str] | None = None
    cold_start: ColdStartWords | None = None
    hedge: HedgeWords = HedgeWords()
    retries: RetryWords = RetryWords()
    timeouts: TimeoutWords = TimeoutWords()
    wait_usd_per_s: UsdText = Action().wait_nanousd_per_s
    quality_usd_per_step: UsdText = Action().quality_nanousd_per_step
    spot_loss_usd: UsdText = Action().spot_loss_nanousd
    fallbacks: Annotated[
        FallbackWords,
        BeforeValidator(_fallbacks, json_schema_input_type=ModelList | FallbackWords),
    ] = FallbackWords()

    def action(self) -> Action:
        latency, start = self.preferred_max_latency, self.cold_start
        return Action(
            only=_set(self.only),
            order=tuple(self.order),
            ignore=frozenset(self.ignore),
            sort=self.sort,
            max_price=PriceBound(self.max_price.in_per_1m, self.max_price.out_per_1m),
            preferred_max_latency=None if latency is None else _latency(latency),
            allow_fallbacks=self.allow_fallbacks,
            quantizations=_set(self.quantizations),
            data_collection_allowed=self.data_collection == "allow",
            use_case=self.use_case,
            quality_min=self.min_quality,
            regions=_set(self.regions),
            cold_start=None
            if start is None
            else ColdStart(start.max_wait_ms / 1000, start.on_exceed),
            retries=Retries(self.retries.max, self.retries.retry_after_max_ms / 1000),
            timeouts=Timeouts(
                _seconds(self.timeouts.connect_ms),
                _seconds(self.timeouts.first_token_ms),
                _seconds(self.timeouts.idle_ms),
            ),
            fallbacks=Fallbacks(
                tuple(self.fallbacks.general),
                tuple(self.fallbacks.context_window),
                tuple(self.fallbacks.budget),
            ),
            hedge=Hedge(_seconds(self.hedge.after_ms), self.hedge.share),
            wait_nanousd_per_s=self.wait_usd_per_s,
            quality_nanousd_per_step=self.quality_usd_per_step,
            spot_loss_nanousd=self.spot_loss_usd,
        )


def _seconds(ms: float | None) -> float | None:
    return None if ms is None else ms / 1000


def _set(items: list[Any] | None) -> frozenset[Any] | None:
    return None if items is None else frozenset(items)


def _latency(words: LatencyWords) -> LatencyPreference:
    value = words.model_dump(exclude_none=True)
    return LatencyPreference(
        tuple((int(name[1:3]) / 100, ms / 1000) for name, ms in sorted(value.items()))
    )


class CanaryWords(_Words):
    """Another route for a sticky share of the callers."""

    share: Annotated[float, Field(ge=0, le=1)]
    by: StickyByText = StickyBy.ORGANIZATION
    salt: Annotated[str, Field(max_length=64)] | None = None
    route: RouteWords

    def canary(self, rule_id: str) -> Canary:
        salt = rule_id if self.salt is None else self.salt
        return Canary(self.route.action(), round(self.share * SHARES), salt, self.by)


class ShadowWords(_Words):
    """A route that is decided and recorded, and to which nothing is sent."""

    route: RouteWords


class DefaultWords(_Words):
    """What happens to calls that no rule matches."""

    route: RouteWords
    canary: CanaryWords | None = None
    shadow: ShadowWords | None = None

    def rule(self, rule_id: str, when: tuple[Clause, ...]) -> Rule:
        canary = None if self.canary is None else self.canary.canary(rule_id)
        shadow = None if self.shadow is None else self.shadow.route.action()
        return Rule(rule_id, when, self.route.action(), canary, shadow)


class RuleWords(DefaultWords):
    """A rule: its route is taken where every clause of `when` holds, and no rule before it."""

    id: Name
    when: Annotated[list[str], Field(max_length=CLAUSES_MAX)]


class ExpectWords(_Words):
    rule: str


class TestWords(_Words):
    """Attributes of a call, and the rule that it must fall under."""

    __test__ = False
    name: Annotated[str, Field(min_length=1, max_length=200)]
    input: dict[str, Any]
    expect: ExpectWords


class PolicyDocument(_Words):
    """A routing policy. The first rule whose clauses all hold wins."""

    apiVersion: Literal["gateway/v1"]
    kind: Literal["RoutingPolicy"]
    rules: Annotated[list[RuleWords], Field(max_length=RULES_MAX)]
    default: DefaultWords
    tests: Annotated[list[TestWords], Field(max_length=1000)] = []
