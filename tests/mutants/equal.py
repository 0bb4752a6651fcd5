"""Changes that mean the same, so that no test can notice them: (path, line, change) and why."""

from __future__ import annotations

FAST_PATH = "what it leaves to the lines below, they answer alike"
NOT_READ = "where there is no window, how long it is decides nothing"

NONE_OR_SOME = "it is counted to tell none from some"

EQUAL: dict[tuple[str, str, str], str] = {
    (
        "billing/prices/rating.py",
        "if not units or not nanousd_per_mtok:",
        "Or turned",
    ): "nothing times a price is nothing, by the next line too",
    ("billing/limits/gcra.py", "if back_us <= 0:", "LtE > Lt"): "giving back 0 changes nothing",
    ("gateway/call/meter.py", "self.frames += 1", "1 > 2"): NONE_OR_SOME,
    ("gateway/call/meter.py", "other.output >= one.output", "GtE > Gt"): FAST_PATH,
    ("gateway/call/meter.py", "and other.input >= one.input", "GtE > Gt"): FAST_PATH,
    ("gateway/call/meter.py", "and other.cached_input >= one.cached_input", "GtE > Gt"): FAST_PATH,
    ("gateway/call/meter.py", "and other.reasoning >= one.reasoning", "GtE > Gt"): FAST_PATH,
    ("gateway/call/meter.py", "and other.cache_write >= one.cache_write", "GtE > Gt"): FAST_PATH,
    (
        "workers/autoscaling/scale.py",
        "excess_ms = 0 if memory.excess_since_ms is None else view.at_ms - memory.excess_since_ms",
        "0 > 1",
    ): NOT_READ,
}
