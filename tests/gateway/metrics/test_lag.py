"""The lag of the loop: the worst of late, seen alike by whoever looks, and forgotten in time."""

from __future__ import annotations

from gateway.metrics.lag import WINDOW_S, LoopLag


def test_worst_is_kept_for_a_window_and_then_forgotten() -> None:
    now_s = 0.0
    lag = LoopLag(lambda: now_s)
    lag.observe(0.4)
    lag.observe(0.1)
    assert lag.worst_s == lag.worst_s == 0.4
    now_s = WINDOW_S
    lag.observe(0.2)
    assert lag.worst_s == 0.4, "one window longer, for who scrapes at its end"
    now_s = 2 * WINDOW_S
    lag.observe(0.0)
    assert lag.worst_s == 0.2
