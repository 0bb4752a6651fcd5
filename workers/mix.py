"""[[mixes]]: pools of one variant that serve together, declared once for settings, the gateway and
the controller. Owns the rules that hold inside of one mix, and between several."""

from collections import Counter
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator
from pydantic_core import PydanticCustomError

INTEGER_MAX = 2**31 - 1
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Replicas = Annotated[int, Field(strict=True, ge=0, le=INTEGER_MAX)]


class Mix(BaseModel):
    """Pools of one variant on reserved, spot and on-demand capacity, told apart by their class."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: Name
    model: str = Field(min_length=1)
    pools: tuple[Name, ...] = Field(min_length=1)
    base: Replicas = 0
    spare: Replicas = 0
    stable_s: float = Field(30.0, ge=0, le=86_400)
    retry_s: float = Field(300.0, ge=0, le=86_400)

    @field_validator("pools")
    @classmethod
    def _each_once(cls, pools: tuple[str, ...]) -> tuple[str, ...]:
        if twice := _twice(pools):
            raise _wrong(f"{twice} stands twice")
        return pools


def _apart(mixes: tuple[Mix, ...]) -> tuple[Mix, ...]:
    if twice := _twice([mix.name for mix in mixes]):
        raise _wrong(f"{twice} stands twice")
    if twice := _twice([pool for mix in mixes for pool in mix.pools]):
        names = " and ".join(mix.name for mix in mixes if twice in mix.pools)
        raise _wrong(f"the pool {twice} is in {names}: a pool is in one mix")
    return mixes


MixSettings = Annotated[tuple[Mix, ...], AfterValidator(_apart)]


def _twice(names: tuple[str, ...] | list[str]) -> str | None:
    return next((name for name, count in Counter(names).items() if count > 1), None)


def _wrong(words: str) -> PydanticCustomError:
    return PydanticCustomError("mixes", "{words}", {"words": words})
