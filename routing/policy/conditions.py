"""Clauses of rules: CEL expressions over the declared attributes, checked once, asked often.

Owns the one use of the CEL engine (cel-expr-python), the exception to routing's standard library.
A clause is a condition: its type is bool. The language has no loop, no pattern and no untyped
value, so that a clause costs no more than its own length and the texts that it reads. A clause that
fails at a call, as a missing key of `req.metadata` does, does not hold.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

from cel_expr_python import cel

from routing.policy.attributes import ATTRIBUTES, BY_NAME, AttributeKind, Attributes

CLAUSE_CHARACTERS_MAX: Final = 2_000
MEMORY_ENTRIES_MAX: Final = 1_024
"""How many answers a clause remembers. Then it forgets them all."""

_MACROS: Final = ("all", "exists", "exists_one", "filter", "map")
_FUNCTIONS: Final = ("matches", "dyn")
_ORDERS: Final = ("_<_", "_<=_", "_>_", "_>=_")
_EQUALITIES: Final = ("_==_", "_!=_")


class Mistake(NamedTuple):
    """What is wrong, and where: line and column are counted from 1."""

    line: int
    column: int
    message: str


class InvalidClause(Exception):
    """The text is no condition. `mistakes` has all of them, at places inside of the text."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("; ".join(mistake.message for mistake in mistakes))
        self.mistakes = mistakes


Test = Callable[[Attributes], bool]


@dataclass(frozen=True, slots=True)
class Clause:
    """A checked condition. `holds` never raises for complete attributes."""

    text: str
    names: tuple[str, ...]
    """The attributes that it may read."""
    holds: Test = field(compare=False, repr=False)


def clause(text: str) -> Clause:
    """Check a condition and make it ready. Raises InvalidClause."""
    if len(text) > CLAUSE_CHARACTERS_MAX:
        message = f"the clause has {len(text)} characters, at most {CLAUSE_CHARACTERS_MAX} may be"
        raise InvalidClause((Mistake(1, 1, message),))
    expression = _checked(text)
    names = _names(text)
    return Clause(text, names, _comparisons(text) or _remembered(expression, names))


def engine_clause(text: str) -> Clause:
    """The same condition, always asked of the engine. It is what `clause` is measured against."""
    expression, names = _checked(text), _names(text)
    return Clause(text, names, lambda attributes: _evaluated(expression, names, attributes))


def _checked(text: str) -> Any:
    try:
        expression = _engine().compile(text)
    except RuntimeError as error:
        raise InvalidClause(_mistakes(str(error))) from None
    except TypeError:  # a surrogate without its pair
        raise InvalidClause((Mistake(1, 1, "the clause is not valid Unicode"),)) from None
    kind = expression.return_type().name()
    if kind != "BOOL":
        message = f"a clause is true or false, and this is of type {kind.lower()}"
        raise InvalidClause((Mistake(1, 1, message),))
    return expression


@cache
def _engine() -> Any:
    """The environment: types of the attributes, comparisons of numbers with numbers of either
    type, and nothing that runs over a list or a pattern."""
    without = "".join(f"\n    - name: {name}" for name in (*_FUNCTIONS, *_ORDERS, *_EQUALITIES))
    macros = ", ".join(_MACROS)
    config = f"stdlib:\n  exclude_macros: [{macros}]\n  exclude_functions:{without}\n"
    return cel.NewEnv(
        config=cel.NewEnvConfigFromYaml(config),
        variables={attribute.name: _type(attribute.kind) for attribute in ATTRIBUTES},
        functions=[_overloads(name) for name in (*_ORDERS, *_EQUALITIES)],
    )


def _type(kind: AttributeKind) -> Any:
    if kind is AttributeKind.TEXTS:
        return cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
    return getattr(cel.Type, kind.name)


def _overloads(name: str) -> Any:
    """CEL's own comparisons, and an int with a double, so that `model.params_b >= 30` is right."""
    numbers, text, truth = (cel.Type.INT, cel.Type.DOUBLE), cel.Type.STRING, cel.Type.BOOL
    pairs = [(left, right) for left in numbers for right in numbers] + [(text, text)]
    if name in _EQUALITIES:
        pairs.append((truth, truth))
    overloads = [
        cel.Overload(f"{name}{left.name()}_{right.name()}", truth, [left, right])
        for left, right in pairs
    ]
    return cel.FunctionDecl(name, overloads)


# ---- What the engine says of a wrong clause

_PLACE = re.compile(r"^(?:\w+: )?ERROR: <input>:(-?\d+):(-?\d+): (.*?)(?: \[[A-Z_]+\])?$", re.M)
_OVERLOAD = re.compile(r"found no matching overload for '[_@]?(\W+|\w+?)_?' applied to '(.*)'")
_SYNTAX = re.compile(r"Syntax error: (.*)", re.S)
_SLIP = re.compile(r"(?:mismatched input|token recognition error at:) '(.*?)'", re.S)
_RIGHT: Final = {
    "<EOF>": "the clause ends too early",
    "=": "'=' compares nothing: write '=='",
    "and": "write '&&' for 'and'",
    "or": "write '||' for 'or'",
}
_GRAMMAR = re.compile(r" expecting .*", re.S)
"""What the grammar would have taken, token by token, in its own words."""


def _mistakes(message: str) -> tuple[Mistake, ...]:
    """Of what is no expression only the first mistake is sure. Where a clause would run over a
    list, names of its items are nobody's mistake."""
    matches = _PLACE.findall(message)
    is_loop = any(_unknown(text) in _MACROS for _, _, text in matches)
    syntax = [each for each in matches if _SYNTAX.match(each[2])]
    placed = [
        Mistake(max(1, int(line)), max(1, int(column)), _plain(text))
        for line, column, text in syntax[:1] or matches
        if not (is_loop and _is_plain_name(text))
    ]
    whole = re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", message)
    return tuple(dict.fromkeys(placed)) or (Mistake(1, 1, _plain(whole)),)


def _plain(text: str) -> str:
    """The engine's message in our words, where it names what we left out of the language."""
    if name := _unknown(text):
        if name in _MACROS:
            return f"'{name}' runs over a list: a clause may not, since nothing bounds it"
        if name in _FUNCTIONS:
            return f"'{name}' may not be used in a clause"
        return f"unknown attribute or function '{name}'{_nearest(name)}"
    if "recursion" in text:
        return "the clause is nested too deeply"
    if syntax := _SYNTAX.match(text):
        return _no_expression(syntax[1])
    if overload := _OVERLOAD.match(text):
        return f"'{overload[1]}' does not take {overload[2]}"
    return text.replace(" (in container '')", "")


def _no_expression(words: str) -> str:
    if (slip := _SLIP.match(words)) and (right := _RIGHT.get(slip[1].strip())):
        return right
    return f"this is no expression: {_GRAMMAR.sub('', words)}"


def _unknown(text: str) -> str | None:
    matches = re.match(r"undeclared reference to '([^']*)'", text)
    return matches[1] if matches else None


def _is_plain_name(text: str) -> bool:
    """Whether it is said of a name without a dot that is no word of the language."""
    name = _unknown(text)
    return name is not None and name.isidentifier() and name not in (*_MACROS, *_FUNCTIONS)


def _nearest(name: str) -> str:
    from difflib import get_close_matches  # only wrong clauses need it

    close = get_close_matches(name, [*BY_NAME, "size", "startsWith", "endsWith", "contains"], n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


# ---- Comparisons that need no engine

_NAME = "|".join(re.escape(attribute.name) for attribute in ATTRIBUTES)
_TEXT = r'"[^"\\\r\n]*"' + r"|'[^'\\\r\n]*'"
_LITERAL = rf"-?\d{{1,15}}(?:\.\d{{1,15}})?|true|false|{_TEXT}"
_COMPARISON = re.compile(rf"\s*({_NAME})\s*(==|!=|<=|>=|<|>)\s*({_LITERAL})\s*")
_MEMBERSHIP = re.compile(rf"\s*({_NAME})\s+in\s*\[\s*((?:{_TEXT})(?:\s*,\s*(?:{_TEXT}))*)\s*\]\s*")
_TRUTH = re.compile(rf"\s*(!?)\s*({_NAME})\s*")
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


def _comparisons(text: str) -> Test | None:
    """Comparisons joined by `&&` and `||`, without brackets. A part that a text's own `&&` cuts is
    no comparison, since its quote is open. None: it is more than that."""
    choices = [[_comparison(part) for part in each.split("&&")] for each in text.split("||")]
    alternatives = [_conjunction([test for test in tests if test is not None]) for tests in choices]
    if any(test is None for tests in choices for test in tests):
        return None
    return alternatives[0] if len(alternatives) == 1 else _disjunction(alternatives)


def _conjunction(tests: list[Test]) -> Test:
    def hold(attributes: Attributes) -> bool:
        for test in tests:  # noqa: SIM110  (a generator costs twice as much)
            if not test(attributes):
                return False
        return True

    return tests[0] if len(tests) == 1 else hold


def _disjunction(tests: list[Test]) -> Test:
    def hold(attributes: Attributes) -> bool:
        for test in tests:  # noqa: SIM110
            if test(attributes):
                return True
        return False

    return hold


def _comparison(text: str) -> Test | None:
    """Where Python and CEL agree to the bit: numbers that a double holds exactly, and whole texts
    for equality. The text has passed the engine's check. None: it is more than that."""
    if (compared := comparison(text)) is None:
        return None
    name, sign, value = compared
    if sign == "in":
        return lambda attributes: attributes[name] in value
    kind = BY_NAME[name].kind
    if kind is AttributeKind.BOOL and sign == "==":
        return lambda attributes: attributes[name] is value
    if kind is AttributeKind.STRING and sign not in ("==", "!="):
        return None
    if kind is AttributeKind.INT and isinstance(value, float):
        return None
    test = _OPERATORS[sign]
    return lambda attributes: test(attributes[name], value)


class Comparison(NamedTuple):
    """An attribute beside a literal; beside several texts where `sign` is `in`."""

    name: str
    sign: str
    value: Any


def comparison(text: str) -> Comparison | None:
    """What the text says, where it is one comparison and no more."""
    if truth := _TRUTH.fullmatch(text):
        return Comparison(truth[2], "==", not truth[1])
    if member := _MEMBERSHIP.fullmatch(text):
        texts = frozenset([quoted[1:-1] for quoted in re.findall(_TEXT, member[2])])
        return Comparison(member[1], "in", texts)
    if compared := _COMPARISON.fullmatch(text):
        return Comparison(compared[1], compared[2], _value(compared[3]))
    return None


def _value(literal: str) -> str | int | float | bool:
    if literal[0] in "\"'":
        return literal[1:-1]
    if literal in ("true", "false"):
        return literal == "true"
    return float(literal) if "." in literal else int(literal)


# ---- Everything else

_WORD = re.compile(r"\w+")


def _names(text: str) -> tuple[str, ...]:
    """The attributes that the clause may read: those whose words are in its text."""
    words = set(_WORD.findall(text))
    return tuple(name for name in BY_NAME if words.issuperset(name.split(".")))


def _remembered(expression: Any, names: tuple[str, ...]) -> Test:
    """The clause, asked of the engine once for the same values of what it reads."""
    memory: dict[tuple[object, ...], bool] = {}

    def holds(attributes: Attributes) -> bool:
        key = tuple([_frozen(attributes[name]) for name in names])
        result = memory.get(key)
        if result is None:
            if len(memory) >= MEMORY_ENTRIES_MAX:
                memory.clear()
            result = memory[key] = _evaluated(expression, names, attributes)
        return result

    return holds


def _frozen(value: object) -> object:
    return frozenset(value.items()) if isinstance(value, dict) else value


def _evaluated(expression: Any, names: tuple[str, ...], attributes: Attributes) -> bool:
    """What the engine answers. An error is a value to it, and is not true."""
    try:
        answer = expression.eval(data={name: attributes[name] for name in names})
        return answer.value() is True
    except (RuntimeError, ValueError, TypeError):  # a value that the engine cannot take
        return False
