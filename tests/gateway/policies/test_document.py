# ruff: noqa: E501
"""Documents: every mistake is named at its place, and what validates never raises at a call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from gateway.policies.document import compiled, examine, schema
from gateway.policies.names import CatalogueNames
from gateway.policies.shipped import shipped_document, shipped_policy
from gateway.policies.source import CHARACTERS_MAX, InvalidDocument, read
from routing.policy.action import ColdStart, Hedge, OnExceed, PriceBound, Sort, Target, TargetKind
from routing.policy.attributes import Attributes, completed
from tests.routing.policy.strategies import any_attributes, any_clauses

HEAD = "apiVersion: gateway/v1\nkind: RoutingPolicy\n"
BARE = HEAD + "rules: []\ndefault: {route: {}}\n"
WHOLE = (
    HEAD
    + """rules:
  - id: big-context-to-spot
    when: ['req.est_tokens > 32000', 'req.service_tier == "flex"', 'tenant.tier != "regulated"']
    route: {only: [pool:spot-h200, provider:openrouter], sort: {by: price}, max_price: {out_per_1m: "1.20"}, preferred_max_latency: {p95_ttft_ms: 8000}, allow_fallbacks: true}
  - id: gold-latency
    when: ['tenant.tier == "gold"', 'model.params_b >= 30']
    route: {order: [pool:warm-h100, pool:burst], sort: {by: latency}, cold_start: {max_wait_ms: 1500, on_exceed: fallback}, hedge: {after_ms: 800, share: 0.02}}
default: {route: {sort: {by: price}}}
tests: [{name: flex big, input: {req.est_tokens: 50000, req.service_tier: flex, tenant.tier: silver, model.params_b: 70}, expect: {rule: big-context-to-spot}}]
"""
)


NOTHING = CatalogueNames()


def mistakes(text: str, known: CatalogueNames = NOTHING) -> list[tuple[int, int, str]]:
    with pytest.raises(InvalidDocument) as raised:
        compiled(text, revision=1, known=known)
    return [tuple(mistake) for mistake in raised.value.mistakes]  # type: ignore[misc]


@given(st.text(max_size=200))
def test_any_text_is_a_policy_or_has_mistakes_with_places(text: str) -> None:
    for line, column, message in mistakes(text):
        assert line >= 1 and column >= 1 and message


@given(st.lists(any_clauses(), max_size=3, unique=True), any_attributes())
def test_a_document_that_validates_never_raises_at_a_call(
    clauses: list[str], attributes: Attributes
) -> None:
    rules = "".join(
        f"  - {{id: r{n}, when: [{_quoted(text)}], route: {{}}}}\n"
        for n, text in enumerate(clauses)
    )
    policy = compiled(HEAD + f"rules:\n{rules or '  []'}\ndefault: {{route: {{}}}}\n", revision=4)
    matched = policy.match(attributes)
    assert matched.rule == policy.trace(attributes)[-1].rule


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''").replace("\n", " ") + "'"


def test_the_whole_example_becomes_actions() -> None:
    policy = compiled(WHOLE, revision=3)
    big, gold = policy.rules
    assert big.action.only == {
        Target(TargetKind.POOL, "spot-h200"),
        Target(TargetKind.PROVIDER, "openrouter"),
    }
    assert big.action.max_price == PriceBound(None, 1_200_000_000)
    assert big.action.preferred_max_latency is not None
    assert big.action.preferred_max_latency.ttft_s_by_quantile == ((0.95, 8.0),)
    assert gold.action.cold_start == ColdStart(1.5, OnExceed.FALLBACK)
    assert gold.action.hedge == Hedge(0.8, 0.02)
    assert big.action.hedge == Hedge(None, 0.03)
    assert policy.default.action.sort is Sort.PRICE
    assert compiled(BARE, revision=1).match(completed({})).rule == "default"


def test_the_shipped_policy_has_the_prices_of_the_tiers() -> None:
    def price(tier: str) -> int:
        return (
            shipped_policy().match(completed({"req.service_tier": tier})).action.wait_nanousd_per_s
        )

    assert [price(tier) for tier in ("priority", "default", "flex")] == [2_000_000, 100_000, 200]
    assert shipped_document().startswith("#")


def test_all_mistakes_are_named_at_once() -> None:
    text = HEAD + (
        "rules:\n"
        "  - id: a\n"
        "    when: ['tenant.teir == \"gold\"', 'req.model.exists(x, true)']\n"
        "    route: {onyl: [pool:x], allow_fallbacks: 7}\n"
    )
    found = mistakes(text)
    places = [(line, column) for line, column, _ in found]
    assert (5, 19) in places, "inside of the clause, behind its quote"
    assert (6, 13) in places and (6, 46) in places
    words = " ".join(message for _, _, message in found)
    for word in ("'default' is missing", "did you mean 'only'?", "did you mean 'tenant.tier'?"):
        assert word in words
    assert "runs over a list" in words


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        (BARE.replace("rules: []", "rules: [{id: a, when: [], route: {}}, {id: b, when: ['req.stream'], route: {}}]"), (3, 39), "never reached"),
        (BARE.replace("rules: []", "rules: [{id: default, when: ['req.stream'], route: {}}]"), (3, 14), "is taken"),
        (BARE + "tests: [{name: t, input: {req.modle: a}, expect: {rule: default}}]", (5, 27), "did you mean 'req.model'"),
        (BARE + "tests: [{name: t, input: {req.model: 3}, expect: {rule: default}}]", (5, 38), "of type string"),
        (BARE + "tests: [{name: t, input: {time.hour: 24}, expect: {rule: default}}]", (5, 38), "no call has this 'time.hour'"),
        (BARE + "tests: [{name: t, input: {req.service_tier: gold}, expect: {rule: default}}]", (5, 45), "no call has this"),
        (BARE.replace("rules: []", "rules: [{id: a, when: [req.stream], route: {}}, {id: b, when: ['!req.stream'], route: {}}, {id: c, when: [], route: {}}]"), (3, 92), "'a' and 'b' together take its calls first"),
        (BARE + "tests: [{name: t, input: {}, expect: {rule: defautl}}]", (5, 45), "did you mean 'default'"),
        (BARE + "x: &a [1]\ny: *a", (6, 4), "alias"),
        (BARE + "kind: again", (5, 1), "twice"),
        (BARE + "x: !!python/name:os.system a", (5, 4), "tag"),
        (BARE + "x: " + "[" * 40 + "]" * 40, (5, 15), "nested deeper"),
        ("a: [", (2, 1), "not YAML"),
        ("a" * (CHARACTERS_MAX + 1), (1, 1), "characters, at most"),
        ("", (1, 1), "empty"),
        (BARE.replace("{route: {}}", "{route: {only: []}}"), (4, 25), "at least 1"),
        (BARE.replace("{route: {}}", "{route: {sort: speed}}"), (4, 25), "'latency'"),
        (BARE.replace("{route: {}}", "{route: {wait_usd_per_s: -1}}"), (4, 35), "not negative"),
    ],
)  # fmt: skip
def test_each_mistake_stands_at_its_place(text: str, place: tuple[int, int], word: str) -> None:
    assert any(place == found[:2] and word in found[2] for found in mistakes(text)), mistakes(text)


def test_names_are_checked_where_the_catalogue_is_known() -> None:
    known = CatalogueNames(
        frozenset({"warm-h100", "burst", "spot-h200"}), frozenset(), unpriced=frozenset({"burst"})
    )
    found = mistakes(WHOLE.replace("pool:spot-h200", "pool:spot-h20"), known)
    messages = [message for _, _, message in found]
    assert messages == [
        "unknown pool 'spot-h20'; did you mean 'spot-h200'?",
        "unknown provider 'openrouter'",
        "the model of pool 'burst' has no price",
    ]


def test_a_test_that_fails_is_a_mistake() -> None:
    found = mistakes(WHOLE.replace("50000", "5"))
    assert [message for _, _, message in found] == [
        "test 'flex big': rule 'big-context-to-spot' is expected, 'default' matches"
    ]


def test_a_block_of_text_keeps_the_places_of_its_lines() -> None:
    text = (
        HEAD
        + "rules:\n- id: a\n  when:\n  - |\n    req.stream\n    && tenant.x\n  route: {}\ndefault: {route: {}}\n"
    )
    assert [(line, column) for line, column, _ in mistakes(text)] == [(8, 14)]


@pytest.mark.parametrize("models", ["[small]", "{budget: [small]}"])
def test_what_is_right_and_has_no_effect_is_warned_of_at_its_place(models: str) -> None:
    text = HEAD + (
        "rules:\n"
        f"- {{id: a, when: [], route: {{allow_fallbacks: false, fallbacks: {models}}}}}\n"
        "default: {route: {}}\n"
    )
    examined = examine(text)
    assert examined.mistakes == () and examined.policy is not None
    [warning] = examined.warnings
    assert (warning.line, warning.column) == (4, 53)
    assert warning.message == "'fallbacks' has no effect beside 'allow_fallbacks: false'"
    for other in (text.replace("false", "true"), text.replace(models, "[]")):
        assert examine(other).warnings == ()


def test_the_schema_has_the_words_of_a_route() -> None:
    words = schema()["$defs"]["RouteWords"]["properties"]
    assert {"only", "order", "sort", "max_price", "wait_usd_per_s", "cold_start"} <= set(words)


def test_the_schema_takes_what_the_check_takes() -> None:
    values = [read(text).value for text in (WHOLE, BARE, shipped_document())]
    values[1]["default"]["route"] = {"fallbacks": ["other"], "sort": "latency"}
    for value in values:
        Draft202012Validator(schema()).validate(value)
    values[1]["default"]["route"] = {"onyl": []}
    assert not Draft202012Validator(schema()).is_valid(values[1])


def test_every_kind_of_mistake_is_named_in_one_pass() -> None:
    known = CatalogueNames(
        frozenset({"a"}),
        models=frozenset({"m"}),
        quantizations=frozenset({"bf16"}),
        unpriced=frozenset({"a"}),
        unpriced_models=frozenset({"m"}),
    )
    text = HEAD + (
        "rules:\n"
        "  - {id: all, when: [], route: {only: [pool:b]}}\n"
        "  - {id: late, when: ['req.stream'], route: {order: [a], wait_usd_per_s: x}}\n"
        "  - {id: none, when: ['req.stream', '!req.stream'], route: {fallbacks: [n]}}\n"
        "  - {id: loop, when: ['req.metadata.all(k, true)'], route: {cold_start: {max_wait_ms: a}}}\n"
        "  - {id: all, when: ['req.tools'], route: {fallbacks: {budget: [m]}}}\n"
        "  - {id: weights, when: ['req.tools'], route: {quantizations: [fp61]}}\n"
        "tests: [{name: t, input: {req.strem: true}, expect: {rule: lost}}]\n"
    )
    words = " / ".join(message for _, _, message in mistakes(text, known))
    for part in (
        "unknown pool 'b'",
        "the model of pool 'a' has no price",
        "rule 'late' is never reached: 'all' takes its calls first",
        "rule 'none' is never reached: no call meets all of its clauses",
        "unknown model 'n'",
        "runs over a list",
        "this is to be a number",
        "'default' is missing",
        "not an amount in USD",
        "the id 'all' is taken by a rule before",
        "unknown attribute 'req.strem'; did you mean 'req.stream'?",
        "unknown rule 'lost'",
        "the model 'm' has no price",
        "no weights are named 'fp61'",
    ):
        assert part in words, words


def test_a_megabyte_of_text_is_refused_before_it_is_read() -> None:
    [(line, column, message)] = mistakes("a: b\n" * 200_000)
    assert (line, column) == (1, 1) and "at most 262144" in message


def test_a_failing_test_says_what_it_got_and_others_their_result() -> None:
    examined = examine(WHOLE.replace("50000", "5"))
    assert [(each.name, each.rule, each.passed) for each in examined.tests] == [
        ("flex big", "default", False)
    ]
    assert examined.policy is not None and len(examined.mistakes) == 1
