"""How often a law that opens a ledger, a gateway or a process is tried: a share in `make test`, and
all of it in `make test-all` and `make mutants`, which choose another profile of Hypothesis."""

from __future__ import annotations

from hypothesis import settings

SHORT_PROFILE = "sluice"
SHORT_SHARE = 3


def examples(whole: int) -> int:
    """Of so many, those that the profile of this run takes."""
    if settings.get_current_profile_name() != SHORT_PROFILE:
        return whole
    return -(-whole // SHORT_SHARE)
