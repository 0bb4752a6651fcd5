"""A meter as a wrong product would have it: for the auditor to find."""

from __future__ import annotations

from msgspec.structs import replace

from billing.types import Usage
from gateway.call.meter import Meter


class HalfMeter(Meter):
    """Of what came it counts half."""

    @property
    def usage(self) -> Usage:
        whole = super().usage
        return replace(whole, output=whole.output // 2)
