"""The command line, called as a user calls it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.commands import data_folder
from gateway.supervisor.credentials import keep_credentials
from tests import nursery


def test_help_names_every_command(tmp_path: Path) -> None:
    told = sluice("--help").stdout
    for command in (
        "up",
        "gateway",
        "ledger",
        "controller",
        "workers",
        "migrate",
        "invoice",
        "models",
    ):
        assert f"\n  {command} " in told


def test_fresh_ledger_migrates_twice_verifies_and_has_no_invoices(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    for _ in range(2):
        assert sluice("migrate", "--data", data).returncode == 0
    verified = sluice("ledger", "verify", "--json", "--data", data)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)["ok"] is True
    letters = sluice("ledger", "dead-letters", "--data", data)
    assert letters.stdout == "0 open, 0 booked later, 0 judged by a person\n", letters.stderr
    tried = sluice("ledger", "dead-letters", "retry", "--all", "--data", data)
    assert (tried.returncode, tried.stdout) == (0, "there is nothing to try again\n")
    invoiced = sluice("invoice", "run", "--period", "2026-01", "--data", data)
    assert invoiced.returncode == 0, invoiced.stderr
    assert json.loads(invoiced.stdout)["invoices"] == []


@pytest.mark.parametrize(
    "command",
    [
        ("up",),
        ("gateway",),
        ("ledger",),
        ("ledger", "verify"),
        ("ledger", "dead-letters"),
        ("ledger", "dead-letters", "retry", "--all"),
        ("controller",),
        ("workers",),
        ("models", "apply", "models.toml"),
    ],
)
def test_broken_settings_end_every_command_with_one_line(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    config = tmp_path / "mine.toml"
    config.write_text("[ledger]\nraep_interval_s = 1\n")
    ended = sluice(*command, "--config", str(config), "--data", str(tmp_path))
    assert ended.returncode == 1
    assert ended.stderr == f"Error: settings: {config}: unknown key ledger.raep_interval_s\n"


def test_migrate_into_a_file_in_the_way_says_so(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    ended = sluice("migrate", "--data", str(tmp_path / "data"))
    assert ended.returncode != 0
    assert ended.stderr.strip().endswith("is a file.")


@pytest.mark.parametrize(
    "wrong",
    [("retry",), ("retry", "3", "--all"), ("retry", "0"), ("resolve", "3"),
     ("resolve", "3", "--note", " ")],
)  # fmt: skip
def test_a_command_about_dead_letters_that_makes_no_sense_does_nothing(
    tmp_path: Path, wrong: tuple[str, ...]
) -> None:
    ended = sluice("ledger", "dead-letters", *wrong, "--data", str(tmp_path / "none"))
    assert ended.returncode == 2 and ended.stderr.startswith("Usage: ")
    assert not (tmp_path / "none").exists()


def test_part_started_by_hand_joins_its_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = keep_credentials(tmp_path, lambda: "token")
    monkeypatch.setattr(os, "environ", {"SLUICE_ADMIN_KEY": "mine"})
    data_folder.join(tmp_path, None)
    assert os.environ["SLUICE_REDIS_URL"] == f"unix://{tmp_path}/redis.sock"
    assert os.environ["SLUICE_WORKER_SECRET"] == made.worker_secret
    assert os.environ["SLUICE_ADMIN_KEY"] == "mine"


def test_a_shell_completes_commands_that_are_imported_late() -> None:
    words = {"COMP_WORDS": "sluice ledger dead-letters re", "COMP_CWORD": "3"}
    found = subprocess.run(
        [sys.executable, "-c", "from gateway.cli import main; main(prog_name='sluice')"],
        env=os.environ | words | {"_SLUICE_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert found.stdout.split() == ["plain,resolve", "plain,retry"]
    assert "_SLUICE_COMPLETE=bash_complete" in sluice("completion", "bash").stdout


def sluice(*arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    return nursery.sluice(*arguments, env=clean)
