"""The parts of docker-compose.yml on PostgreSQL: one call, its charge, and every law of money."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx2 as httpx
import psycopg
import pytest

from tests.compose_run import ComposeRun
from tests.journeys.calls import CHAT, SMALL, body, nano, rid_of
from tests.stack_config import ROOT

pytestmark = [
    pytest.mark.long,  # Ray and the models start: a minute and more
    pytest.mark.xdist_group("compose"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def running() -> Iterator[ComposeRun]:
    with ComposeRun() as run:
        yield run


@pytest.fixture(scope="module")
def answer(running: ComposeRun) -> httpx.Response:
    """A chat call of the first tenant; it waits for a worker if none is warm yet."""
    with httpx.Client(base_url=running.base_url, timeout=120.0) as client:
        return client.post(
            CHAT,
            headers={"authorization": f"Bearer {running.secrets['SLUICE_API_KEY']}"},
            json=body(SMALL, max_tokens=12),
        )


def test_call_is_answered_and_charged_in_postgresql(
    running: ComposeRun, answer: httpx.Response
) -> None:
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"]
    cost_nanousd = nano(answer.headers["x-sluice-cost-usd"])
    assert cost_nanousd > 0
    charges = _charges(running, rid_of(answer.json()["id"]))
    assert charges == [("charge", cost_nanousd)]


def test_every_law_of_money_holds_in_postgresql(
    running: ComposeRun, answer: httpx.Response
) -> None:
    verified = running.run("ledger", "ledger", "verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)


def test_draft_invoice_sums_to_the_charge(running: ComposeRun, answer: httpx.Response) -> None:
    period = datetime.now(UTC).strftime("%Y-%m")
    invoiced = running.run("ledger", "invoice", "run", "--period", period)
    assert invoiced.returncode == 0, invoiced.stdout + invoiced.stderr
    with psycopg.connect(running.sql_url) as sql:
        lines = sql.execute(
            "SELECT amount_nanousd FROM invoice_line WHERE kind = 'usage'"
        ).fetchall()
    assert sum(amount for (amount,) in lines) == nano(answer.headers["x-sluice-cost-usd"])


@pytest.mark.parametrize(
    "change",
    ["UPDATE transfer SET amount_nanousd = 1", "DELETE FROM transfer", "TRUNCATE transfer CASCADE"],
)
def test_postgresql_refuses_to_change_a_transfer(
    running: ComposeRun, answer: httpx.Response, change: str
) -> None:
    with (
        psycopg.connect(running.sql_url) as sql,
        pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="may not change"),
    ):
        sql.execute(change)


def test_declared_model_serves_from_the_volume_that_gateway_and_workers_share(
    running: ComposeRun, answer: httpx.Response, tmp_path: Path
) -> None:
    file = tmp_path / "models.toml"
    file.write_text(
        f"""
        models = [{{name = "declared", path = "{ROOT}/models/sluice-small"}}]
        pools = [{{name = "declared", model = "declared", num_cpus = 0.1}}]
        prices = [{{model = "declared", input_usd_per_mtok = "1", output_usd_per_mtok = "1"}}]
        """
    )
    for told in ("applied: 3 added", "nothing to do"):
        done = running.run("gateway", "models", "apply", str(file))
        assert done.returncode == 0 and told in done.stdout, done.stdout + done.stderr

    def call() -> httpx.Response | None:
        """Once the gateway has seen the catalog and the price; the pool starts on demand."""
        found = client.post(CHAT, json=body("declared", max_tokens=4), headers=headers)
        return None if found.status_code in (400, 404) else found

    headers = {"authorization": f"Bearer {running.secrets['SLUICE_API_KEY']}"}
    with httpx.Client(base_url=running.base_url, timeout=120.0) as client:
        response = running.wait_until(call, 20.0)
    assert response.status_code == 200, response.text
    assert response.headers["x-sluice-pool"] == "declared"


def test_every_part_ends_when_it_is_told_to(running: ComposeRun, answer: httpx.Response) -> None:
    assert answer.status_code == 200
    ended = running.stop()
    assert ended.pop("gateway") in (
        0,
        -signal.SIGTERM,
    )  # uvicorn ends, then obeys the signal itself
    assert {name: status for name, status in ended.items() if status != 0} == {}


def _charges(running: ComposeRun, rid: str) -> list[tuple[str, int]]:
    """Of one call, once the writer has booked it."""

    def look() -> list[tuple[str, int]]:
        with psycopg.connect(running.sql_url) as sql:
            return sql.execute(
                "SELECT kind, amount_nanousd FROM transfer WHERE rid = %s", (rid,)
            ).fetchall()

    return running.wait_until(look, 20.0)


def test_the_database_asks_for_the_password(running: ComposeRun) -> None:
    wrong = running.sql_url.replace(running.secrets["POSTGRES_PASSWORD"], "guessed")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(wrong)
