"""Values that bodies and queries carry: nothing larger than the columns, scripts and clocks that
hold it, so that a wrong one is refused in words and never stored."""

from typing import Annotated

from fastapi import Path
from pydantic import Field, StringConstraints

INTEGER_MAX = 2**31 - 1
"""What an INTEGER column holds in every database."""
EXACT_MAX = 2**53 - 1
"""Redis' scripts and most readers of JSON count in doubles, which are exact up to here."""
COST_NANOUSD_MAX = 10**13
"""Ten thousand USD: with DAY_S of it a score still fits into 64 bits."""
DAY_S = 86_400.0
YEAR_S = 365 * DAY_S
LAST_EPOCH_S = 253_402_300_799
"""The end of the year 9999, after which no calendar here can name a day."""

# Numbers of bodies are strict: `false` is none, nor is "1".
Count = Annotated[int, Field(strict=True, ge=0, le=INTEGER_MAX)]
Several = Annotated[int, Field(strict=True, ge=1, le=INTEGER_MAX)]
Limit = Annotated[int, Field(strict=True, ge=0, le=EXACT_MAX)]
Burst = Annotated[int, Field(strict=True, ge=1, le=EXACT_MAX)]
CostNanousd = Annotated[int, Field(strict=True, ge=0, le=COST_NANOUSD_MAX)]
EpochS = Annotated[int, Field(ge=0, le=LAST_EPOCH_S)]
"""Of queries, which are text."""
InstantS = Annotated[int, Field(strict=True, ge=0, le=LAST_EPOCH_S)]
Label = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$"
    ),
]
"""A name for people: on one line, and not blank."""

Text = Annotated[str, StringConstraints(max_length=2000, pattern=r"^[^\x00]*$")]
"""Whatever a database keeps: PostgreSQL has no NUL."""

ModelName = Annotated[str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$")]
PoolName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
Scope = Annotated[
    str,
    Path(
        pattern=r"^(org|project|key):.+$",
        description="`org:ID`, `project:ID` or `key:ID`, as in `key:key_default`",
    ),
]
