"""What a scope may use, declared once: for the admin API, the row in SQL, the OpenAPI document and,
under the same names, `routing.types.Leave`."""

from collections.abc import Collection, Iterable
from typing import Annotated, Final, Literal

from pydantic import Field
from sqlalchemy import JSON, String
from sqlmodel import Field as Column
from sqlmodel import SQLModel

from gateway.fields import Label
from routing.types import CapacityClass, Leave, Tier


class EntitlementFields(SQLModel):
    """Null is everything."""

    models: Annotated[list[Label], Field(max_length=1000)] | None = Column(
        default=None, sa_type=JSON
    )
    tiers: list[Tier] | None = Column(default=None, sa_type=JSON)
    capacity_classes: list[CapacityClass] | None = Column(default=None, sa_type=JSON)
    regions: Annotated[list[Label], Field(max_length=1000)] | None = Column(
        default=None, sa_type=JSON
    )
    pools: Annotated[list[Label], Field(max_length=1000)] | None = Column(
        default=None, sa_type=JSON
    )
    data_collection: Literal["allow", "deny"] | None = Column(
        default=None,
        sa_type=String,
        description="deny: only pools whose operator neither keeps prompts nor trains on them",
    )


LISTS: Final = tuple(name for name in EntitlementFields.model_fields if name != "data_collection")


def leave_of(scopes: Collection[EntitlementFields]) -> Leave:
    """What all of the scopes allow: none widens what another one restricts."""
    return Leave(
        **{name: _narrowest(getattr(scope, name) for scope in scopes) for name in LISTS},
        data_collection_allowed=all(scope.data_collection != "deny" for scope in scopes),
    )


def entitlement_of(leave: Leave) -> EntitlementFields:
    """The one scope that allows the same."""
    lists = {name: getattr(leave, name) for name in LISTS}
    return EntitlementFields(
        **{name: None if names is None else sorted(names) for name, names in lists.items()},
        data_collection=None if leave.data_collection_allowed else "deny",
    )


def _narrowest(allowed: Iterable[list[str] | None]) -> frozenset[str] | None:
    lists = [frozenset(names) for names in allowed if names is not None]
    return frozenset.intersection(*lists) if lists else None
