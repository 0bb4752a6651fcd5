"""External pools that are there keep asking for what they asked for."""

from __future__ import annotations

from alembic import command
from sqlalchemy import text

from billing.db.engine import Store, open_store
from migrations.run import alembic_config, rebuilding

BEFORE, AFTER = "0019", "0020"
POOLS = {"own": ("reserved", "fp16"), "outside": ("external", "their-model")}


def test_the_variant_of_an_external_pool_is_what_its_server_calls_the_model(url: str) -> None:
    store = open_store(url)
    with rebuilding(store) as conn:
        command.upgrade(alembic_config(conn), BEFORE)
        conn.execute(
            text(
                "INSERT INTO model (name, context_tokens, max_output_tokens, size_rank, quality,"
                " task, created_us, enabled, source)"
                " VALUES ('m', 1, 1, 1, 0.5, 'generate', 0, true, 'admin')"
            )
        )
        for name, (capacity_class, variant) in POOLS.items():
            conn.execute(
                text(
                    "INSERT INTO pool (name, model, variant, capacity_class, min_replicas,"
                    " max_replicas, initial_replicas, idle_s, num_cpus, num_gpus, max_ongoing,"
                    " cost_nanousd_per_s, cost_input_nanousd_per_mtok,"
                    " cost_output_nanousd_per_mtok, cold_start_s, enabled, source)"
                    " VALUES (:name, 'm', :variant, :class, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 1,"
                    " true, 'admin')"
                ),
                {"name": name, "variant": variant, "class": capacity_class},
            )
        command.upgrade(alembic_config(conn), AFTER)
    assert _sent(store) == {"own": None, "outside": "their-model"}
    with store.write() as conn:
        conn.execute(text("UPDATE pool SET upstream_model = 'newer' WHERE name = 'outside'"))
    with rebuilding(store) as conn:
        command.downgrade(alembic_config(conn), BEFORE)
        command.upgrade(alembic_config(conn), AFTER)
    assert _sent(store) == {"own": None, "outside": "newer"}
    store.close()


def _sent(store: Store) -> dict[str, str | None]:
    with store.read() as conn:
        rows = conn.execute(text("SELECT name, upstream_model FROM pool"))
        return {row.name: row.upstream_model for row in rows}
