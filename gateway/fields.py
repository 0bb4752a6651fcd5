"""Values that settings, declarations and bodies share: nothing larger than the columns, scripts and
clocks that hold it, so that a wrong one is refused in words and never stored."""

from typing import Annotated

from pydantic import Field, StringConstraints

INTEGER_MAX = 2**31 - 1
"""What an INTEGER column holds in every database."""
EXACT_MAX = 2**53 - 1
"""Redis' scripts and most readers of JSON count in doubles, which are exact up to here."""
DAY_S = 86_400.0
YEAR_S = 365 * DAY_S

# Numbers are strict: `false` is none, nor is "1".
Count = Annotated[int, Field(strict=True, ge=0, le=INTEGER_MAX)]
Several = Annotated[int, Field(strict=True, ge=1, le=INTEGER_MAX)]
Label = Annotated[
    str,
    StringConstraints(
        strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$"
    ),
]
"""A name for people: on one line, and not blank."""
