"""How many calls, how large, how long."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True)
class Bounds:
    """`calls_max` are in flight at once, more are told 503; `timeout_s` is what a provider has for
    a whole answer, and for each silence within a stream."""

    calls_max: int = 256
    body_bytes_max: int = 4 << 20
    timeout_s: float = 600.0

    @classmethod
    def of(cls, environment: Mapping[str, str], prefix: str) -> Self:
        """Those that variables say. Raises ValueError."""
        said = {f.name: environment.get(f"{prefix}{f.name.upper()}") for f in fields(cls)}
        kinds = {"calls_max": int, "body_bytes_max": int, "timeout_s": float}
        return cls(**{name: kinds[name](text) for name, text in said.items() if text is not None})
