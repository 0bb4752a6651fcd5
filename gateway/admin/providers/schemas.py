"""Accounts with providers: their keys by name, and what they are like now."""

from typing import Annotated, Literal

from pydantic import AliasPath, Field, NonNegativeInt

from gateway.admin.pools.schemas import FleetBreaker, PoolCheckAnswer
from gateway.api.schemas import Body, Usd
from gateway.fields import Label
from gateway.providers.key import KEYS_MAX, KeyFields, KeyName, ProviderKey


class KeyBody(KeyFields):
    pass


class ProviderBody(Body):
    keys: Annotated[list[ProviderKey], Field(max_length=KEYS_MAX)]


class ProviderCheckBody(Body):
    key: KeyName | None = Field(None, description="null: one of those that can be used")
    pool: Label | None = Field(None, description="null: its first one")


class KeyAnswer(FleetBreaker):
    """A key by its name. Its state is the worst of its breakers, in whatever region and pool."""

    name: str = Field(description="of the variable or file that holds it")
    region: str | None = Field(description="of the pools that it is for; null: of all")
    share: int
    requests_per_minute: int | None
    tokens_per_minute: int | None
    concurrent: int | None
    is_set: bool = Field(
        description="this gateway knows what it holds; of pools with an adapter, `sluice providers`"
        " does"
    )
    in_flight: NonNegativeInt = Field(description="attempts of this gateway")
    spend_usd: Usd = Field(description="booked for attempts with it in this month, in UTC")


class ProviderAnswer(FleetBreaker):
    """Its state is that of the pool and key that can be asked, or can be the soonest."""

    object: Literal["provider"] = "provider"
    name: str
    is_account: bool = Field(description="false: some pools name it, and have keys of their own")
    keys: list[KeyAnswer]
    pools: list[str]
    spend_usd: Usd = Field(
        description="booked for its pools in this month, in UTC; also with keys that are gone"
    )


class ProviderCheckAnswer(PoolCheckAnswer):
    object: Literal["provider_check"] = "provider_check"  # type: ignore[assignment]
    provider: str = Field(validation_alias=AliasPath("provider"))
    key: str | None = Field(validation_alias=AliasPath("key"))
