"""Instants as people write them in files and bodies: ISO 8601 or epoch seconds, read into epoch
microseconds. Nothing larger than the columns, scripts and clocks that hold one."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

LAST_EPOCH_S = 253_402_300_799
"""The end of the year 9999, after which no calendar here can name a day."""
LAST_US = LAST_EPOCH_S * 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
WRITTEN_AS = {
    "anyOf": [
        {"type": "string", "format": "date-time"},
        {"type": "integer", "minimum": 0, "maximum": LAST_EPOCH_S},
    ],
    "description": "ISO 8601, or epoch seconds",
}
READ_AS = {"type": "string", "format": "date-time", "description": "ISO 8601, UTC"}


def instant_us(value: object) -> int:
    """Epoch microseconds of ISO 8601 (UTC where it names no zone), of a date or time of TOML, or of
    epoch seconds. Raises ValueError."""
    if isinstance(value, date):
        value = value.isoformat()
    if isinstance(value, str):
        try:
            instant = datetime.fromisoformat(value)
        except ValueError as wrong:
            raise ValueError("an instant is ISO 8601 or epoch seconds") from wrong
        aware = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
        epoch_us = (aware - EPOCH) // timedelta(microseconds=1)
    elif isinstance(value, int) and not isinstance(value, bool):
        epoch_us = value * 1_000_000
    else:
        raise ValueError("an instant is ISO 8601 or epoch seconds")
    if not 0 <= epoch_us <= LAST_US:
        raise ValueError("an instant lies between the years 1970 and 9999")
    return epoch_us


def iso(epoch_us: int) -> str:
    """Epoch microseconds as ISO 8601 in UTC."""
    return datetime.fromtimestamp(epoch_us / 1e6, UTC).isoformat()


def _as_text(value: object) -> str:
    return iso(instant_us(value))


InstantText = Annotated[
    str,
    BeforeValidator(_as_text),
    WithJsonSchema(WRITTEN_AS, mode="validation"),
    WithJsonSchema(READ_AS, mode="serialization"),
]
"""An instant in a document that is kept as it is: ISO 8601 in UTC."""
