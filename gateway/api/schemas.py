"""What bodies and answers of the API are made of: money, instants, pages.

A noun declares its own in `schemas.py`. An answer is read from what the product has, by attribute;
`Field(validation_alias=...)` names an attribute that is called otherwise. A route returns that
object and names the answer as its `response_model`.
"""

from operator import not_
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args

from pydantic import (
    AliasGenerator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    Field,
    NonNegativeInt,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError
from sqlmodel._compat import SQLModelConfig

from billing.money import nanousd, usd
from gateway.instants import READ_AS, WRITTEN_AS, instant_us, iso

Item = TypeVar("Item")


class Body(BaseModel):
    """What a caller sends: a field that nobody knows is refused. It is never read as ours, not even
    where its fields are those of a table."""

    model_config = SQLModelConfig(extra="forbid", from_attributes=False)


class Answer(BaseModel):
    """What a route answers: every field is there, and null where it says nothing. One that has a
    type as its parameter is named after both, one of several kinds after all."""

    model_config = SQLModelConfig(
        from_attributes=True, json_schema_serialization_defaults_required=True
    )

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        kinds = get_args(params[0]) or params
        return "Or".join(kind.__name__ for kind in kinds) + cls.__name__


def read_from(part: str) -> SQLModelConfig:
    """Of an answer that reads its fields from one part of what is answered, but for those with an
    alias of their own."""
    aliases = AliasGenerator(validation_alias=lambda name: AliasPath(part, name))
    return SQLModelConfig(alias_generator=aliases)


def left_out(attribute: str, name: str | None = None) -> Any:
    """A field that is not there where what is answered has no such attribute; `name`: what it is
    called in JSON."""
    return Field(
        validation_alias=attribute,
        serialization_alias=name,
        default_factory=lambda: None,
        exclude_if=lambda value: value is None,
    )


def is_ours(info: ValidationInfo) -> bool:
    """Whether a value comes from the product, as an answer's does, and not from a caller."""
    return bool(info.config and info.config.get("from_attributes"))


def _nanousd(value: Any, info: ValidationInfo) -> int:
    if isinstance(value, int) and is_ours(info):
        return value
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    return nanousd(value)


def _epoch_us(value: Any, info: ValidationInfo) -> int:
    return value if isinstance(value, int) and is_ours(info) else instant_us(value)


Usd = Annotated[
    int,
    BeforeValidator(_nanousd),
    PlainSerializer(usd, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^-?[0-9]+(\.[0-9]+)?$",
            "description": "decimal USD",
            "examples": ["0.000041"],
        }
    ),
]
"""Nano-USD in the product; a decimal string in USD in JSON, both ways."""

At = Annotated[
    int,
    BeforeValidator(_epoch_us),
    PlainSerializer(iso, return_type=str),
    WithJsonSchema(WRITTEN_AS, mode="validation"),
    WithJsonSchema(READ_AS, mode="serialization"),
]
"""Epoch microseconds in the product; ISO 8601 in answers; ISO 8601 or epoch seconds in bodies."""

EPOCH_DIGITS = 9
"""From so many digits on, a text of a query is epoch seconds and no date."""


def _instant_us(text: str) -> int:
    is_epoch = text.isascii() and text.isdigit() and len(text) >= EPOCH_DIGITS
    return instant_us(int(text) if is_epoch else text)


AtOfQuery = Annotated[int, BeforeValidator(_instant_us), WithJsonSchema(WRITTEN_AS)]
"""The same in a query."""

NoneIfEmpty = Annotated[str | None, BeforeValidator(lambda text: text or None)]
"""Columns and records have "" for everybody or everything; JSON has null."""


RareCount = Annotated[NonNegativeInt, Field(exclude_if=not_)]
RareUsd = Annotated[Usd, Field(exclude_if=not_)]
"""Left out where there is none: most models have none."""


class TokenCounts(Answer):
    input: NonNegativeInt
    cached_input: NonNegativeInt
    output: NonNegativeInt


class UsageCounts(TokenCounts):
    cache_write: RareCount = 0
    reasoning: RareCount = 0
    gpu_ms: RareCount = 0
    audio_input: RareCount = 0
    image_input: RareCount = 0
    audio_output: RareCount = 0
    image_output: RareCount = 0
    units: RareCount = 0


class CallUsage(UsageCounts):
    unit: str = Field("", exclude_if=not_, description="of what its `units` are")


class Listing(Answer, Generic[Item]):
    """A list that comes as a whole."""

    object: Literal["list"] = "list"
    data: list[Item]


class Page(Listing[Item], Generic[Item]):
    """A list that comes in pages."""

    has_more: bool
    after: str | None = Field(description="where the next page begins; null where none does")
