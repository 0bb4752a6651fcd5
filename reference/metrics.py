"""The page of metrics: every family of a scrape."""

from gateway.metrics.tally import Tally
from gateway.metrics.text import Now, families
from reference.markdown import code, table

HEAD = """# Metrics

`GET /metrics` of every gateway answers in Prometheus' text format. [Operations](../operations.md#metrics) says how to
scrape it and what is worth an alert. `process_*` (memory, CPU seconds, open files) are those of Prometheus' own client.

"""
QUIET = Now(
    gateway="",
    open_calls=0,
    waiting={},
    unsettled_calls=0,
    limiter_is_away=False,
    limiter_outages=0,
    redis_filled=0.0,
    spool_bytes=0,
    loop_lag_s=0.0,
    fleet_age_s=0.0,
    policy_version=1,
    policy_is_broken=False,
    quality_version=1,
    quality_is_broken=False,
    decisions_lost=0,
    replicas={},
)
ROW = ("Metric", "Kind", "Labels", "Says")


def metrics() -> str:
    rows = []
    for family in families(Tally(), QUIET):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = getattr(family, "_labelnames", ())
        rows.append((code(name), family.type, ", ".join(map(code, labels)), family.documentation))
    return HEAD + table(ROW, rows)
