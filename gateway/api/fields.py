"""Values that bodies and queries carry: nothing larger than the columns, scripts and clocks that
hold it, so that a wrong one is refused in words and never stored."""

from typing import Annotated

from fastapi import Path
from pydantic import Field, StringConstraints

from gateway.errors import bad_request
from gateway.instants import LAST_EPOCH_S

EpochS = Annotated[int, Field(ge=0, le=LAST_EPOCH_S)]
"""Of queries, which are text."""


def require_future(expires_us: int | None, now_s: float) -> None:
    """Raises ApiError 400 for an end that has passed: what was to have it would never work."""
    if expires_us is not None and expires_us <= now_s * 1e6:
        raise bad_request("expires_at: Must lie in the future.", "expires_at")


Text = Annotated[str, StringConstraints(max_length=2000, pattern=r"^[^\x00]*$")]
"""Whatever a database keeps: PostgreSQL has no NUL."""

Scope = Annotated[
    str,
    Path(
        pattern=r"^(org|project|key):.+$",
        description="`org:ID`, `project:ID` or `key:ID`, as in `key:key_default`",
    ),
]
