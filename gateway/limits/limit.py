"""The limits that a scope can have, declared once: for settings, the admin API, the rows in SQL and
the OpenAPI document; and, under the same names, `billing.limits.types.ScopeLimits`."""

from typing import Annotated, Literal

from pydantic import Field
from sqlalchemy import BigInteger, String
from sqlmodel import Field as Column
from sqlmodel import SQLModel
from sqlmodel._compat import SQLModelConfig

from billing.written_usd import Usd, WrittenUsd
from gateway.fields import EXACT_MAX

Limit = Annotated[int, Field(ge=0, le=EXACT_MAX)]
BudgetWindowName = Literal["total", "month"]
Burst = Annotated[int, Field(ge=1, le=EXACT_MAX)]


class LimitFields(SQLModel):
    """Null is no limit; a burst that is null is one minute's worth of its rate."""

    requests_per_minute: Limit | None = Column(default=None, sa_type=BigInteger)
    request_burst: Burst | None = Column(default=None, sa_type=BigInteger)
    tokens_per_minute: Limit | None = Column(default=None, sa_type=BigInteger)
    token_burst: Burst | None = Column(default=None, sa_type=BigInteger)
    input_tokens_per_minute: Limit | None = Column(default=None, sa_type=BigInteger)
    input_token_burst: Burst | None = Column(default=None, sa_type=BigInteger)
    output_tokens_per_minute: Limit | None = Column(default=None, sa_type=BigInteger)
    output_token_burst: Burst | None = Column(default=None, sa_type=BigInteger)
    concurrency: Limit | None = Column(default=None, sa_type=BigInteger)


class OwnerLimitFields(LimitFields, WrittenUsd):
    """Those of an organization, a project or a key, which have a budget beside them."""

    model_config = SQLModelConfig()
    budget_nanousd: Usd | None = Column(default=None, sa_type=BigInteger)
    budget_window: BudgetWindowName = Column(default="month", sa_type=String)
