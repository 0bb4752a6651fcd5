"""What parks a draft though nothing of it is missing: what a person should see first.

Pure. The limits are settings; `reviews` has what a person has said of a draft.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Guards:
    """A draft is parked above `from_cents` and above `times` the invoice before it; 0 times parks
    none. A VAT id that is relied on needs an answer of the last `vat_days`; None asks for none. An
    exchange rate is of the last `rate_days`."""

    times: int = 10
    from_cents: int = 10_000
    vat_days: int | None = None
    rate_days: int = 10

    def is_beyond(self, total_cents: int, before_cents: int) -> bool:
        is_watched = self.times > 0 and total_cents > self.from_cents
        return is_watched and total_cents > self.times * max(before_cents, 0)


GUARDS = Guards()
"""Those of the settings that come with Sluice."""
