"""What a scope may use, declared once: for the admin API, the row in SQL, the OpenAPI document and,
under the same names, `routing.types.Leave`."""

from typing import Annotated

from pydantic import Field
from sqlalchemy import JSON
from sqlmodel import Field as Column
from sqlmodel import SQLModel

from gateway.fields import Label
from routing.types import CapacityClass, Tier


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
