"""What an attempt costs us stands in its record, at the prices that held when it began."""

from __future__ import annotations

from dataclasses import replace

from billing.costs.attempts import cost_nanousd
from billing.types import AttemptKind, Usage
from gateway.call.attempt import OpenAttempt, kind_after
from gateway.call.frame import Choice, Frame
from gateway.call.meter import Meter
from routing.types import CapacityClass, Pool

OWN = Pool(
    name="own",
    model="m",
    variant="v",
    capacity_class=CapacityClass.RESERVED,
    max_replicas=1,
    max_ongoing=4,
    cost_nanousd_per_s=2_000,
    cost_input_nanousd_per_mtok=7,
    cost_output_nanousd_per_mtok=7,
    cold_start_s=1.0,
)
OUTSIDE = replace(
    OWN,
    name="outside",
    capacity_class=CapacityClass.EXTERNAL,
    cost_input_nanousd_per_mtok=2_500_000,
    cost_output_nanousd_per_mtok=500_000,
)


def metered(*busy_us: int) -> Meter:
    meter = Meter(prompt_tokens=3)
    for output, share_us in enumerate(busy_us, start=1):
        usage = Usage(input=2, cached_input=1, output=output)
        meter.observe(Frame((Choice(delta={"content": "a"}),), usage, output, share_us), 1.0)
    return meter


def test_a_replica_costs_its_share_of_time_as_the_last_frame_told_it() -> None:
    record = OpenAttempt(OWN, "r1", "m", 5).record(metered(400, 900, 1_500), 9, "answered")
    assert (record.pool, record.model, record.outcome) == ("own", "m", "answered")
    assert (record.busy_us, record.nanousd_per_s) == (1_500, 2_000)
    assert (record.input_nanousd_per_mtok, record.output_nanousd_per_mtok) == (0, 0)
    assert cost_nanousd(record) == 3


def test_a_server_outside_costs_its_tokens() -> None:
    record = OpenAttempt(OUTSIDE, "external:outside", "m", 5).record(metered(0, 0), 9, "answered")
    assert record.nanousd_per_s == 0
    assert cost_nanousd(record) == 8 + 1  # 7.5 and 1, each rounded to the even neighbour


def test_what_a_server_outside_had_cached_costs_its_own_price() -> None:
    """Two tokens at 2.5, one at 0.5 and two of an answer at 0.5 nano-USD: 5.5 and 1."""
    caching = replace(OUTSIDE, cost_cached_input_nanousd_per_mtok=500_000)
    tried = OpenAttempt(caching, "external:outside", "m", 5)
    assert cost_nanousd(tried.record(metered(0, 0), 9, "answered")) == 6 + 1
    own = OpenAttempt(replace(OWN, cost_cached_input_nanousd_per_mtok=9), "r1", "m", 5)
    assert own.record(metered(400), 9, "answered").cached_input_nanousd_per_mtok is None


def test_an_attempt_of_which_nothing_came_costs_what_is_known_of_it() -> None:
    record = OpenAttempt(OWN, "r1", "m", 5).record(None, 9, "unreachable")
    assert (record.delivered, cost_nanousd(record)) == (0, 0)


def test_a_running_attempt_can_be_told_at_any_moment() -> None:
    tried, meter = OpenAttempt(OWN, "r1", "m", 5), metered(400)
    assert tried.record(meter, 7).busy_us == 400
    assert tried.record(meter, 7).outcome == "running"


def test_an_attempt_after_a_failure_is_a_retry_of_its_model_or_a_fallback_to_another() -> None:
    failed = OpenAttempt(OWN, "r1", "m", 5).record(None, 9, "unreachable")
    assert kind_after([], "m") is AttemptKind.FIRST
    assert kind_after([failed], "m") is AttemptKind.RETRY
    assert kind_after([failed], "other") is AttemptKind.FALLBACK


def test_the_record_of_an_attempt_says_why_it_was_made() -> None:
    tried = OpenAttempt(OWN, "r1", "m", 5, AttemptKind.HEDGE)
    assert tried.record(None, 7).kind is AttemptKind.HEDGE
