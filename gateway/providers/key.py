"""The keys of an account with a provider: what can be said of one, and whose turn it is. Pure.

A key is known by the name of the variable or file that holds it. What that holds is nowhere here.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field
from sqlmodel._compat import SQLModelConfig

from gateway.fields import Label, Several

SHARE_MAX = 1_000
KEYS_MAX = 100

KeyName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,199}$",
        description="of the variable or file that holds it",
        examples=["SLUICE_PROVIDER_KEY_OPENAI"],
    ),
]


class KeyFields(BaseModel):
    """Limits hold for all gateways together, over any 60 seconds."""

    model_config = SQLModelConfig(extra="forbid", frozen=True)

    region: Label | None = Field(None, description="of the pools that it is for; null: of all")
    share: int = Field(
        1, strict=True, ge=1, le=SHARE_MAX, description="of the calls, beside that of other keys"
    )
    requests_per_minute: Several | None = Field(None, description="null: no limit")
    tokens_per_minute: Several | None = Field(
        None, description="of prompts and `max_tokens`; null: no limit"
    )
    concurrent: Several | None = Field(None, description="calls at a time; null: no limit")


class ProviderKey(KeyFields):
    """A key of an account."""

    name: KeyName

    @property
    def has_limits(self) -> bool:
        return (self.requests_per_minute or self.tokens_per_minute or self.concurrent) is not None


class KeyTurns:
    """Whose turn it is, by shares: of so many turns in a row as the shares sum up to each key has
    exactly its own, and none has its turns in a row where others have some. A key that is left out
    for a time makes up for nothing later. After the smooth weighted round robin of nginx."""

    def __init__(self) -> None:
        self._credit: dict[str, int] = {}

    def next(self, shares: Mapping[str, int]) -> str:
        """`shares` are those of the keys that may be used now: one or more."""
        credit = {name: self._credit.get(name, 0) + share for name, share in shares.items()}
        chosen = max(credit, key=lambda name: credit[name])
        credit[chosen] -= sum(shares.values())
        self._credit = credit
        return chosen


def keys_of(rows: Sequence[Mapping[str, Any]]) -> tuple[ProviderKey, ...]:
    """As SQL has them."""
    return tuple([ProviderKey.model_validate(row) for row in rows])


def in_region(keys: Sequence[ProviderKey], region: str | None) -> tuple[ProviderKey, ...]:
    """Those that a pool of this region may use."""
    return tuple([key for key in keys if key.region in (None, region)])
