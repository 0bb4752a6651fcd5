"""Cursors of pages: the key of the last row of a page, so that the next one goes on behind it."""

import base64
import json
from collections.abc import Iterable
from typing import Any


def cursor_of(key: Iterable[Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(list(key)).encode()).decode()


def key_of(cursor: str) -> list[Any] | None:
    """None if it is no cursor. Whether the key is one of those rows is for others to say."""
    try:
        key = json.loads(base64.b64decode(cursor, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        return None
    return key if isinstance(key, list) else None
