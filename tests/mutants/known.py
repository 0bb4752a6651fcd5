"""Mistakes that no test noticed once, each with the tests that notice it now."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """In `path` the text `right` becomes `wrong`; one of `tests` fails then."""

    what: str
    path: str
    right: str
    wrong: str
    tests: tuple[str, ...]


KNOWN = (
    Known(
        "month of admission",
        "billing/ledger/posting.py",
        '"month": utc_month(call.admitted_us)',
        '"month": utc_month(call.ended_us)',
        ("tests/billing/ledger/test_posting.py",),
    ),
    Known(
        "purse of a hold that is told again",
        "billing/limits/reannounce.lua",
        "if m > 0 then purses_in(epoch, now).hold(ARGV[7], call, hold) end",
        "",
        (
            "tests/billing/limits/test_purses.py"
            "::test_a_hold_that_is_told_again_counts_in_an_open_shard_at_once",
        ),
    ),
    Known(
        "only if due",
        "billing/recovery/reaper.py",
        "self._holds.settle(call, only_if_due=True)",
        "self._holds.settle(call, only_if_due=False)",
        (
            "tests/billing/recovery/test_reaper.py"
            "::test_a_call_that_is_renewed_while_the_reaper_looks_is_left_alone",
        ),
    ),
    Known(
        "end of a rolling window",
        "billing/budgets/counting.py",
        "return bucket[2] + share.width_us + share.span_us if share.width_us else share.until_us",
        "return bucket[2] + share.width_us if share.width_us else share.until_us",
        (
            "tests/billing/budgets/test_counting.py"
            "::test_part_of_a_rolling_span_counts_until_the_span_has_wholly_left_it",
        ),
    ),
    Known(
        "hold of the dearest model",
        "gateway/call/open_call.py",
        "return max([self.hold_of(call, model, output_tokens)",
        "return min([self.hold_of(call, model, output_tokens)",
        ("tests/gateway/test_quote_prices.py",),
    ),
    Known(
        "price of the tier",
        "gateway/call/pricing.py",
        "    tier = call.tier\n",
        "    tier = type(call.tier).DEFAULT\n",
        ("tests/gateway/test_quote_prices.py",),
    ),
    Known(
        "text after a report",
        "gateway/call/meter.py",
        "return self.output + self._texts_of(frame)",
        "return self.output",
        ("tests/gateway/call/test_meter.py",),
    ),
    Known(
        "text after a report is counted",
        "gateway/call/meter.py",
        "return so_far + Usage(output=self._texts)",
        "return so_far if self._reported else so_far + Usage(output=self._texts)",
        ("tests/gateway/call/test_meter.py",),
    ),
    Known(
        "busy within warm",
        "billing/costs/lifetimes.py",
        "return max(0, min(report.busy_us, report.until_us - report.ready_us))",
        "return report.busy_us",
        (
            "tests/billing/costs/test_costs.py"
            "::test_a_replica_never_computed_longer_than_it_was_warm",
        ),
    ),
    Known(
        "queued calls of a drain",
        "workers/autoscaling/drain.py",
        "replica.running == 0 and replica.queued == 0",
        "replica.running == 0",
        ("tests/workers/autoscaling/test_scale.py",),
    ),
    Known(
        "refusing before routers know",
        "workers/autoscaling/drain.py",
        "    if elapsed_ms < knobs.settle_ms:",
        "    if elapsed_ms < 0:",
        ("tests/workers/autoscaling/test_scale.py",),
    ),
    Known(
        "peak of an excess",
        "workers/autoscaling/scale.py",
        "excess_peak=max(memory.excess_peak, floor)",
        "excess_peak=floor",
        ("tests/workers/autoscaling/test_scale.py",),
    ),
    Known(
        "size of an event is per event",
        "gateway/wire/sse.py",
        "                self._size = 0\n",
        "",
        ("tests/gateway/wire/test_sse.py",),
    ),
    Known(
        "barren bytes",
        "gateway/upstream/http1/exchange.py",
        "elif self._barren > BARREN_BYTES_MAX:",
        "elif self._barren < 0:",
        (
            "tests/gateway/upstream/test_http1.py"
            "::test_what_never_becomes_a_body_is_refused_for_its_size_and_not_for_its_time",
        ),
    ),
    Known(
        "line breaks in header values",
        "gateway/upstream/http1/request.py",
        'if "\\r" in value or "\\n" in value or "\\0" in value:',
        'if "\\0" in value:',
        ("tests/gateway/upstream/test_http1.py::test_header_cannot_smuggle_a_line",),
    ),
    Known(
        "admin key compared whole",
        "gateway/admin/authentication.py",
        "hmac.compare_digest(key.encode(), expected.encode())",
        "hmac.compare_digest(key.encode()[:16], expected.encode()[:16])",
        ("tests/gateway/admin/test_authentication_of_every_byte.py",),
    ),
    Known(
        "no more charged than held",
        "gateway/call/open_call.py",
        "self.meter.usage.within(prompt, self.output_tokens_granted, most)",
        "self.meter.usage",
        ("tests/gateway/call/test_above_hold.py",),
    ),
    Known(
        "all output held outside",
        "gateway/call/open_call.py",
        "    if decision.chosen.capacity_class is CapacityClass.EXTERNAL:\n        return most\n",
        "",
        ("tests/gateway/test_quote_prices.py",),
    ),
    Known(
        "reasoning in the rates",
        "billing/limits/holds.py",
        "token_units(used.completion)",
        "token_units(used.output)",
        ("tests/gateway/call/test_above_hold.py::test_tokens_of_reasoning_count_in_the_rates",),
    ),
)
