"""Attributes of any call, and clauses over them."""

from typing import Any

from hypothesis import strategies as st

from routing.policy.attributes import ATTRIBUTES, Attribute, AttributeKind, Attributes

TEXTS = st.sampled_from(["", "a", "gold", "flex", "sélect", "日本", "😀", "a b"])
NUMBERS = st.sampled_from([-(2**53) - 1, -1, 0, 1, 2, 30, 32_000, 2**31, 2**53 + 1])
DOUBLES = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 30.0, 30.5, float("inf"), float("-inf"), 1e300]),
    st.floats(allow_nan=False),
)
OPERATORS = ("==", "!=", "<", "<=", ">", ">=")


def _values(attribute: Attribute) -> st.SearchStrategy[Any]:
    if attribute.words:
        return st.sampled_from(attribute.words)
    if attribute.most is not None:
        return st.integers(attribute.least, attribute.most)
    values = {
        AttributeKind.STRING: TEXTS,
        AttributeKind.INT: NUMBERS,
        AttributeKind.DOUBLE: DOUBLES,
        AttributeKind.BOOL: st.booleans(),
        AttributeKind.TEXTS: st.dictionaries(TEXTS, TEXTS, max_size=3),
    }[attribute.kind]
    return values.filter(attribute.has)


def any_attributes() -> st.SearchStrategy[Attributes]:
    """Of a call: no value is one that no call has."""
    return st.fixed_dictionaries({each.name: _values(each) for each in ATTRIBUTES})


def _quoted(text: str) -> str:
    return f'"{text}"'


def _simple(attribute: Attribute) -> st.SearchStrategy[str]:
    name, gap = attribute.name, st.sampled_from(["", " ", "\n "])
    texts = TEXTS.map(_quoted)
    if attribute.kind is AttributeKind.TEXTS:
        return st.one_of(
            st.builds(lambda t: f"{t} in {name}", texts),
            st.builds(lambda a, b: f"{name}[{a}] == {b}", texts, texts),
            st.builds(lambda n: f"size({name}) > {n}", st.integers(0, 3)),
        )
    if attribute.kind is AttributeKind.BOOL:
        return st.sampled_from([name, f"!{name}", f"{name} == true", f"{name} != false"])
    if attribute.kind is AttributeKind.STRING:
        members = st.lists(texts, min_size=1, max_size=3).map(", ".join)
        return st.one_of(
            st.builds(
                lambda o, g, t: f"{name}{g}{o}{g}{t}", st.sampled_from(OPERATORS), gap, texts
            ),
            st.builds(lambda m: f"{name} in [{m}]", members),
            st.builds(lambda t: f"{name}.startsWith({t})", texts),
        )
    literals = st.one_of(
        st.integers(-100, 40_000).map(str),
        st.decimals(-50, 50, places=2, allow_nan=False, allow_infinity=False).map(
            lambda d: f"{d:f}"
        ),
    )
    return st.one_of(
        st.builds(lambda o, g, n: f"{name}{g}{o}{g}{n}", st.sampled_from(OPERATORS), gap, literals),
        st.integers(-1, 3).map(lambda n: f"int({name}) / {n} > {n}"),
    )


def simple_clauses() -> st.SearchStrategy[str]:
    """One attribute beside a literal, in every form that needs no engine, and some that do."""
    return st.sampled_from(ATTRIBUTES).flatmap(_simple)


def any_clauses() -> st.SearchStrategy[str]:
    """Clauses, and whatever of them is joined by and, or, not and if."""
    return st.recursive(
        simple_clauses(),
        lambda inner: st.one_of(
            st.builds(lambda a, b: f"({a}) && ({b})", inner, inner),
            st.builds(lambda a, b: f"({a}) || ({b})", inner, inner),
            inner.map(lambda a: f"!({a})"),
            st.builds(lambda a, b, c: f"({a}) ? ({b}) : ({c})", inner, inner, inner),
        ),
        max_leaves=4,
    )
