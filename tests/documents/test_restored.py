"""docs/guides/backup.md, followed: what a running Sluice was backed up to is one that goes on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.documents.reader import Reader
from tests.documents.snippets import snippets
from tests.journeys.calls import CHAT, body
from tests.stack import Stack, Tenant
from tests.stack_config import config_text

PAGE = "docs/guides/backup.md"
CALLS = 3
PATIENCE_S = 300
COLD = config_text().replace("initial_replicas = 1", "initial_replicas = 0")
"""A replica starts with the first call, so that nobody waits for those that no call needs."""


def call(stack: Stack, tenant: Tenant) -> str:
    response = stack.call(
        "POST",
        CHAT,
        secret=tenant.secret,
        json=body("sluice-small", max_tokens=8),
        headers={"x-sluice-deadline-ms": str(PATIENCE_S * 1000)},
        timeout=PATIENCE_S + 10,
    )
    assert response.status_code == 200, response.text
    return str(response.headers["x-request-id"])


@pytest.mark.long
@pytest.mark.timeout(900)
def test_backup_of_the_page_is_a_sluice_that_goes_on(tmp_path: Path) -> None:
    with Stack(COLD) as first:
        tenant = first.tenant(budget_usd="1")
        calls = [call(first, tenant) for _ in range(CALLS)]
        explained = [first.generation(each)["cost_usd"] for each in calls]
        admin_key, spent = first.ready["admin_key"], budget(first, tenant)
        reader = Reader(first, tmp_path)
        reader.sit_down()
        for snippet in snippets(PAGE):
            if snippet.not_run is None:
                reader.read(snippet)
    second = Stack(COLD)
    shutil.copytree(tmp_path / "restored", second.data, dirs_exist_ok=True)
    with second:
        assert second.ready["admin_key"] == admin_key
        assert [second.generation(each)["cost_usd"] for each in calls] == explained
        assert budget(second, tenant) == spent
        call(second, tenant)
        second.wait_booked()
        status, report = second.ledger_verify()
        assert status == 0, [check for check in report["checks"] if check["outcome"] != "holds"]
        assert len(second.requests_of(tenant)) == CALLS + 1


def budget(stack: Stack, tenant: Tenant) -> str:
    rows = stack.admin("GET", "/budgets?limit=1000")["data"]
    return next(str(row["spent_usd"]) for row in rows if row["scope"] == f"key:{tenant.key}")
