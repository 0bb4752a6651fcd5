"""Bodies as structs: a field is declared once, in the struct of its route. Its check in OpenAI's
words, its place in the OpenAPI document and the value that the route reads come from there.

A body that is right is decoded into its struct by msgspec. One that msgspec refuses is read as a
dict, and the checks name the first mistake that the caller wrote.
"""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from math import ceil, floor
from typing import (
    Annotated,
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypeVar,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta
from msgspec.inspect import (
    BoolType,
    DictType,
    FloatType,
    IntType,
    LiteralType,
    Metadata,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    type_info,
)

from gateway.errors import ApiError
from gateway.wire.bodies.checks import (
    USER_MAX,
    Check,
    ServiceTier,
    Takes,
    an_object,
    boolean,
    check_fields,
    integer,
    invalid_type,
    json_object,
    missing,
    number,
    one_of,
    only,
    only_as_good_as,
    require_known,
    string,
    taken_outside,
    takes_no_more,
    text_up_to,
)
from gateway.wire.json_schema import (
    ANYTHING,
    BOOLEAN,
    NOTHING,
    STRING,
    Schema,
    as_good_as,
    between,
    const,
    either,
    part,
)
from gateway.wire.json_schema import one_of as enumerated
from routing.types import AUTO_MODEL


class CallBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every route that calls a model takes. Null is the same as nothing said."""

    model: str
    service_tier: ServiceTier | None = None
    user: Annotated[str, Meta(max_length=USER_MAX)] | None = None


class Rule(NamedTuple):
    """What a field may be, in OpenAI's words and as the OpenAPI document has it; and in msgspec's,
    where a type says all of it."""

    check: Check
    schema: Schema
    type_: Any = None


def own(check: Check, schema: Schema) -> Meta:
    """Of a field whose type says less than its check, and how that is described."""
    assert callable(check), "a field of a class hides the function of its name"
    return in_words(Rule(check, schema))


def in_words(rule: Rule) -> Meta:
    return Meta(extra={"rule": rule})


def elsewhere(schema: Schema) -> Rule:
    """Of a field that is checked where it is translated."""
    return Rule(_anything, schema)


def unchecked(schema: Schema) -> Rule:
    """Of a field that is checked with what it is translated into, also where it is missing."""
    return Rule(_nothing, schema)


def described(schema: Schema) -> Meta:
    return in_words(elsewhere(schema))


def _anything(name: str, value: object) -> None:
    if value is None:
        raise missing(name)


def _nothing(name: str, value: object) -> None:
    pass


TEXT = Rule(string, STRING)
SWITCH = Rule(boolean, BOOLEAN, bool)


def word_of(*values: str) -> Rule:
    return Rule(one_of(*values), enumerated(values))


def the(word: str) -> Rule:
    return Rule(one_of(word), const(word))


def text_of(most: int) -> Rule:
    return Rule(text_up_to(most), STRING | {"maxLength": most})


def needed(rule: Rule) -> Rule:
    """Of a field whose absence has words of its own."""

    def check(name: str, value: object) -> None:
        if value is None:
            raise missing(name)
        rule.check(name, value)

    return rule._replace(check=check)


def object_of(fields: Mapping[str, Rule], *required: str, first: Sequence[str] = ()) -> Rule:
    """An object with these fields; those not required may be left out. They are checked in this
    order, but those that come `first`."""
    inner = _fields(fields, required, first, frozenset(fields))

    def check(name: str, value: Any) -> None:
        if value is None:
            raise missing(name)
        an_object(name, value)
        inner(name, value)

    schemas = {name: rule.schema for name, rule in fields.items()}
    return Rule(check, part(schemas, *(fields.keys() - required)))


class Variant(NamedTuple):
    """An object of these types. The check is of its other fields."""

    types: tuple[str, ...]
    check: Check
    schema: Schema


def variant(
    types: str | tuple[str, ...],
    fields: Mapping[str, Rule],
    *required: str,
    first: Sequence[str] = (),
) -> Variant:
    """As `object_of`, with a `type` beside the fields."""
    types = (types,) if isinstance(types, str) else types
    schemas = {name: rule.schema for name, rule in fields.items()}
    schemas = {"type": enumerated(types) if types[1:] else const(types[0])} | schemas
    schema = part(schemas, *(fields.keys() - required))
    return Variant(types, _fields(fields, required, first, {"type", *fields}), schema)


def union_of(*variants: Variant) -> Rule:
    """An object that is one of these by its `type`, which is checked before all else."""
    checks = {name: each.check for each in variants for name in each.types}
    types = one_of(*checks)

    def check(name: str, value: Any) -> None:
        if not isinstance(value, dict):
            raise invalid_type(name, "an object", value)
        kind = value.get("type")
        inner = checks.get(kind) if isinstance(kind, str) else None
        if inner is None:
            types(f"{name}.type", kind)
        else:
            inner(name, value)

    schemas = [each.schema for each in variants]
    return Rule(check, either(*schemas) if schemas[1:] else schemas[0])


def _fields(
    fields: Mapping[str, Rule], required: Collection[str], first: Sequence[str], known: Set[str]
) -> Check:
    ordered = [*first, *(name for name in fields if name not in first)]
    checks = [(name, fields[name].check, name in required) for name in ordered]

    def check(name: str, value: Any) -> None:
        if not value.keys() <= known:
            require_known(name, value, *known)
        for field, inner, is_required in checks:
            if (content := value.get(field)) is not None or is_required:
                inner(f"{name}.{field}", content)

    return check


def as_neutral(value: object) -> Rule:
    """Of a field that nobody here heeds: it may only ask for nothing."""
    return Rule(only_as_good_as(value), as_good_as(value))


def neutral_rules(values: Mapping[str, Any]) -> dict[str, Rule]:
    return {name: as_neutral(value) for name, value in values.items()}


def neutral(value: object) -> Meta:
    return in_words(as_neutral(value))


class Checked(type):
    """Types for msgspec whose values are those that pass a check: it runs where the field is said,
    and costs nothing where it is not."""

    check: Check

    def __instancecheck__(cls, value: object) -> bool:
        cls.check("", value)
        return True


Declared = TypeVar("Declared", bound=msgspec.Struct)


class Reader(Generic[Declared]):
    """The reader of one kind of body; `checks` and `schema` by field, and those `required`.
    `beside` are fields that are declared elsewhere; they may be left out."""

    def __init__(self, kind: type[Declared], beside: Mapping[str, Rule] | None = None) -> None:
        info = type_info(kind)
        assert isinstance(info, StructType)
        hints = get_type_hints(kind)
        types = {f.encode_name: _in_order(some(f.type), hints[f.name]) for f in info.fields}
        rules = {name: rule_of(type_) for name, type_ in types.items()} | dict(beside or {})
        self.required = tuple(field.encode_name for field in info.fields if field.required)
        self.rules = rules
        self.checks: Mapping[str, Check] = {name: rule.check for name, rule in rules.items()}
        self.schema: dict[str, Schema] = {name: rule.schema for name, rule in rules.items()}
        own = {n: _type(rule) for n, rule in rules.items() if _says_less(types.get(n))}
        self._kind = _with_types(kind, own, self.required)
        self._decode: Callable[[bytes], Declared] = msgspec.json.Decoder(self._kind).decode

    def read(
        self, body: bytes, takes: Takes = takes_no_more
    ) -> tuple[Declared, dict[str, Any] | None]:
        """A body, and those of its fields that only servers outside of its model are to read.

        Raises ApiError 400 naming the parameter, in OpenAI's words.
        """
        is_wrong = False
        if not takes(AUTO_MODEL):
            try:
                return self._decode(body), None
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ApiError):
                is_wrong = True
        fields = json_object(body)
        extra = taken_outside(fields, takes)
        if is_wrong:
            check_fields(fields, self.checks, *self.required)
        return self.of(fields), extra

    def of(self, fields: Mapping[str, Any]) -> Declared:
        """Of fields that are decoded already."""
        try:
            return msgspec.convert(fields, self._kind)
        except (msgspec.ValidationError, ApiError):
            check_fields(fields, self.checks, *self.required)
            raise


def _with_types(
    kind: type[Declared], types: Mapping[str, Any], required: tuple[str, ...]
) -> type[Declared]:
    """The same kind of body, whose fields are told to msgspec by these types."""
    fields = [(n, t) if n in required else (n, t | None, None) for n, t in types.items()]
    struct = msgspec.defstruct(
        kind.__name__, fields, bases=(kind,), frozen=True, kw_only=True, forbid_unknown_fields=True
    )
    return cast(type[Declared], struct)


def _type(rule: Rule) -> Any:
    return rule.type_ or Checked("Checked", (), {"check": rule.check})


def _says_less(kind: Type | None) -> bool:
    return kind is None or (isinstance(kind, Metadata) and kind.extra is not None)


def some(kind: Type) -> Type:
    """Null left aside."""
    if not isinstance(kind, UnionType):
        return kind
    return next(each for each in kind.types if not isinstance(each, NoneType))


def _in_order(kind: Type, hint: Any) -> Type:
    """The values of a literal as they are written: msgspec tells them by the alphabet."""
    if not isinstance(kind, LiteralType):
        return kind
    literal = next(h for h in (hint, *get_args(hint)) if get_origin(h) is Literal)
    return LiteralType(get_args(literal))


def rule_of(kind: Type) -> Rule:
    """Raises TypeError for a type that says too little."""
    if isinstance(kind, Metadata) and kind.extra is not None:
        rule: Rule = kind.extra["rule"]
        return rule
    if isinstance(kind, BoolType):
        return SWITCH
    if isinstance(kind, NoneType):
        return Rule(only(None), NOTHING)
    if isinstance(kind, LiteralType):
        return Rule(one_of(*kind.values), enumerated(map(str, kind.values)))
    if isinstance(kind, DictType):
        return Rule(an_object, ANYTHING)
    if isinstance(kind, StrType):
        return text_of(kind.max_length) if kind.max_length else TEXT
    if isinstance(kind, IntType) and kind.ge is not None and kind.le is not None:
        schema = between(kind.ge, kind.le, "integer")
        return Rule(integer(kind.ge, kind.le), schema, _bounded(int, kind.ge, kind.le))
    if isinstance(kind, FloatType) and kind.ge is not None and kind.le is not None:
        either = _bounded(int, ceil(kind.ge), floor(kind.le)) | _bounded(float, kind.ge, kind.le)
        return Rule(number(kind.ge, kind.le), between(kind.ge, kind.le), either)  # 1 stays 1
    raise TypeError(f"no rule is known for {kind}")


def _bounded(kind: type[float], low: float, high: float) -> Any:
    return Annotated[kind, Meta(ge=low, le=high)]
