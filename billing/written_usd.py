"""Money as people write it in files and bodies: decimal USD in text, read into integer nano-USD.

A field is called `..._nanousd...` here and `..._usd...` where it is written. Its former names, in
nano-USD, are still read, and `notices` says what to write instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from billing.money import NANOUSD_MAX, nanousd, usd

INSIDE, WRITTEN = "nanousd", "usd"
COST_NANOUSD_MAX = 10**13
"""Ten thousand USD: with a day of it a score still fits into 64 bits."""
PRICE_NANOUSD_MAX = 10**18 - 1
SCHEMA = WithJsonSchema(
    {
        "type": "string",
        "pattern": r"^[0-9]+(\.[0-9]{1,9})?$",
        "description": "decimal USD, as in 0.00002",
    },
    mode="validation",
)


def _read(value: object, *, most: int, numbers: bool = False) -> int:
    """The nano-USD of a text. Raises PydanticCustomError for one that is no amount from zero to
    `most` nano-USD."""
    if numbers and isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise wrong('write the amount in USD as text, for example "0.00002"')
    try:
        amount = nanousd(value)
    except ValueError as mistake:
        raise wrong(str(mistake)) from mistake
    if not 0 <= amount <= most:
        raise wrong(f"{value} is not between 0 and {usd(most)} USD")
    return amount


Usd = Annotated[int, BeforeValidator(partial(_read, most=NANOUSD_MAX)), SCHEMA]
CostUsd = Annotated[int, BeforeValidator(partial(_read, most=COST_NANOUSD_MAX)), SCHEMA]
PriceUsd = Annotated[
    int, BeforeValidator(partial(_read, most=PRICE_NANOUSD_MAX, numbers=True)), SCHEMA
]
"""Files of before have numbers here, too; they are read as they are written."""


def wrong(words: str) -> PydanticCustomError:
    return PydanticCustomError("amount", "{words}", {"words": words})


def written_name(field: str) -> str:
    """The name of a field in files and bodies: `cost_nanousd_per_s` is written `cost_usd_per_s`."""
    return field.replace(INSIDE, WRITTEN)


class WrittenUsd(BaseModel):
    """Fields that hold nano-USD are written in USD."""

    model_config = ConfigDict(alias_generator=written_name)

    @model_validator(mode="before")
    @classmethod
    def _names_of_before(cls, value: Any) -> Any:
        return in_usd(value, cls.model_fields) if isinstance(value, Mapping) else value


def in_usd(values: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same document in USD. An amount under a former name, in nano-USD, gets its name of
    today."""
    return dict(_in_usd(values, {name for name in fields if INSIDE in name}))


def _in_usd(fields: Mapping[str, Any], inside: set[str]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if name not in inside:
            yield name, value
        elif written_name(name) in fields:
            raise wrong(f"{name} and {written_name(name)} are the same: leave out {name}")
        else:
            yield written_name(name), _text_of(name, value)


def _text_of(name: str, value: object) -> object:
    """A whole number of nano-USD as decimal USD. A number from a variable is text already."""
    if value is None:
        return None
    if isinstance(value, bool) or not str(value).removeprefix("-").isdecimal():
        raise wrong(f"{name} is a whole number of nano-USD; write {written_name(name)} in USD")
    return usd(int(str(value)))


def notices(document: Mapping[str, Any], place: str = "") -> list[str]:
    """A notice for each former name anywhere in a document, with the name to write instead."""
    texts = []
    for name, value in document.items():
        here = f"{place}{name}"
        if isinstance(value, Mapping):
            texts += notices(value, f"{here}.")
        elif isinstance(value, list):
            for index, row in enumerate(value):
                if isinstance(row, Mapping):
                    texts += notices(row, f"{here}.{index}.")
        elif INSIDE in name:
            texts.append(notice(here, name, value))
    return texts


def notice(place: str, name: str, value: object) -> str:
    text = f' = "{usd(value)}"' if isinstance(value, int) and not isinstance(value, bool) else ""
    return f"{place} is a name of before: write {written_name(name)}{text}"
