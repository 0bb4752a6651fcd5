"""What a server asks for with `retry-after`: seconds, or a date of HTTP (RFC 9110, 10.2.3). Pure.

Whoever waits has bounds of its own: here nothing is bounded, and nonsense is no answer.
"""

import math
from datetime import UTC, datetime
from typing import Final

DATES: Final = (
    "%a, %d %b %Y %H:%M:%S GMT",
    "%A, %d-%b-%y %H:%M:%S GMT",
    "%a %b %d %H:%M:%S %Y",
)
"""Those that RFC 9110, 5.6.7 has every recipient read: the one in use, and two old ones."""


def retry_after_s(retry_after: str | None, date: str | None, now_s: float) -> float | None:
    """Seconds to wait, at least 0, or None where the server says nothing that makes sense.

    A date counts from the server's own `date`, as its clock may be wrong; from `now_s` where it
    sends none."""
    text = (retry_after or "").strip()
    seconds = _number(text)
    if seconds is not None:
        return seconds if 0 <= seconds < math.inf else None
    until_s = _instant_s(text)
    if until_s is None:
        return None
    sent_s = _instant_s((date or "").strip())
    return max(0.0, until_s - (now_s if sent_s is None else sent_s))


def _number(text: str) -> float | None:
    """Also a fraction, which some servers send."""
    try:
        return float(text)
    except ValueError:
        return None


def _instant_s(text: str) -> float | None:
    for form in DATES:
        try:
            return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return None
