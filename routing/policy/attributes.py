"""What a condition may ask about a call: the declared attributes with their types.

Owns names, types and meanings, each said once: the engine checks clauses against them, and the
documentation and the console list them. Knows no engine and no document.
"""

from collections.abc import Mapping
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

from routing.types import Tier


class AttributeKind(StrEnum):
    """Types in CEL's words."""

    STRING = "string"
    INT = "int"
    DOUBLE = "double"
    BOOL = "bool"
    TEXTS = "map(string, string)"


AttributeValue = str | int | float | bool | Mapping[str, str]
Attributes = Mapping[str, AttributeValue]
"""A value for each declared name. An int lies within 64 bits, a double is not NaN."""


class Attribute(NamedTuple):
    name: str
    kind: AttributeKind
    default: AttributeValue
    """The value in a test of a policy that does not name this attribute."""
    meaning: str
    least: int | None = None
    most: int | None = None
    words: tuple[str, ...] = ()
    """Every value that a text may have. None: any text."""

    def has(self, value: AttributeValue) -> bool:
        """Whether a call may have this value, which is of its kind."""
        if isinstance(value, str):
            return not self.words or value in self.words
        if not isinstance(value, int | float):
            return True
        above = self.least is None or value >= self.least
        return above and (self.most is None or value <= self.most)


_S, _I, _D = AttributeKind.STRING, AttributeKind.INT, AttributeKind.DOUBLE
_B, _M = AttributeKind.BOOL, AttributeKind.TEXTS

ATTRIBUTES: Final = (
    Attribute("req.model", _S, "", "The model's name in the request, `auto` among them."),
    Attribute(
        "req.service_tier", _S, "default", "`priority`, `default` or `flex`.", words=tuple(Tier)
    ),
    Attribute("req.est_tokens", _I, 0, "Estimated tokens of the prompt.", least=0),
    Attribute("req.max_tokens", _I, 0, "The most tokens that the answer may have.", least=0),
    Attribute("req.stream", _B, False, "Whether the answer is streamed."),
    Attribute("req.tools", _B, False, "Whether the request offers tools."),
    Attribute(
        "req.use_case",
        _S,
        "",
        "The use case that the request names by `metadata.use_case`, or empty.",
    ),
    Attribute("req.metadata", _M, {}, "`metadata` of the request: texts by name."),
    Attribute("tenant.organization", _S, "", "The organization's id."),
    Attribute("tenant.project", _S, "", "The project's id."),
    Attribute("tenant.key", _S, "", "The key's id, never the key."),
    Attribute(
        "tenant.tier", _S, "", "The organization's tier, as the operator wrote it, or empty."
    ),
    Attribute(
        "budget.remaining_usd", _D, inf, "What is left of the tightest budget; infinite without."
    ),
    Attribute("model.name", _S, "", "The model that serves the name in the request, or `auto`."),
    Attribute(
        "model.params_b",
        _D,
        0.0,
        "Billions of parameters, 0 where unknown; the most for `auto`.",
        least=0,
    ),
    Attribute("time.hour", _I, 0, "Hour of the day, 0 to 23, UTC.", least=0, most=23),
    Attribute(
        "time.weekday",
        _I,
        0,
        "Day of the week, 0 is Monday and 6 is Sunday, UTC.",
        least=0,
        most=6,
    ),
)
BY_NAME: Final = {attribute.name: attribute for attribute in ATTRIBUTES}


def completed(attributes: Attributes) -> Attributes:
    """These values, and the default of every attribute that is not among them."""
    return {attribute.name: attribute.default for attribute in ATTRIBUTES} | dict(attributes)
