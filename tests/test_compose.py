"""docker-compose.yml says what is true: real commands, known variables, no secret, no open door."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from click import Context, Group
from pydantic import BaseModel

from gateway.cli import main
from gateway.config_file import PREFIX
from gateway.providers.launch import process_environment
from gateway.settings import ProvidersSettings, Settings
from tests.compose_file import EXAMPLE, FILE, OPTIONAL, PARTS, secret_names, services
from tests.stack_config import ROOT

NOT_SETTINGS = {"CONFIG", "RAY_AUTH_TOKEN"}
"""Read by `gateway.config_file.find_config` and by `workers.settings`."""

SECRETS = {name: f"secret-{name.lower()}" for name in secret_names()}
ALL = services(SECRETS)
OURS = {name: service for name, service in ALL.items() if service["image"].startswith("sluice")}


def test_file_follows_the_compose_schema() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", FILE],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_every_part_of_the_design_is_a_service_by_its_own_command() -> None:
    assert {name for name in OURS if name != "net"} == {*PARTS, *OPTIONAL, "migrate"}
    assert isinstance(main, Group)
    for name, service in OURS.items():
        if name != "net":
            assert service["command"] == [name]
            assert main.get_command(Context(main), name) is not None


@pytest.mark.parametrize("name", [*PARTS, *OPTIONAL, "migrate"])
def test_every_variable_is_a_setting_and_every_value_reads(name: str) -> None:
    environment = OURS[name]["environment"]
    given: dict[str, Any] = {}
    for variable, value in environment.items():
        bare = variable.removeprefix(PREFIX)
        if bare in NOT_SETTINGS:
            continue
        assert variable.startswith(PREFIX), variable
        *sections, key = bare.lower().split("__")
        model: type[BaseModel] = Settings
        place = given
        for section in sections:
            kind = model.model_fields[section].annotation
            assert isinstance(kind, type) and issubclass(kind, BaseModel), variable
            model, place = kind, place.setdefault(section, {})
        assert key in model.model_fields, variable
        place[key] = value
    Settings.model_validate(given)


def test_there_is_no_default_secret() -> None:
    text = FILE.read_text()
    for name in SECRETS:
        assert re.search(rf"^{name}=$", EXAMPLE.read_text(), re.MULTILINE)
        uses = re.findall(rf"\$\{{{name}[^}}]*\}}", text)
        assert uses and all(use.startswith(f"${{{name}:?") for use in uses)
    asked = set(re.findall(r"\$\{(\w+):\?", text))
    assert asked == set(SECRETS)


def test_each_part_gets_the_secrets_it_needs_and_no_other() -> None:
    def holders(secret: str) -> set[str]:
        return {
            name
            for name, service in OURS.items()
            if any(SECRETS[secret] in str(v) for v in service.get("environment", {}).values())
        }

    assert holders("POSTGRES_PASSWORD") == {"migrate", "ledger", "gateway"}
    assert holders("REDIS_PASSWORD") == {"ledger", "controller", "gateway"}
    assert holders("SLUICE_ADMIN_KEY") == holders("SLUICE_API_KEY") == {"gateway"}
    assert holders("SLUICE_WORKER_SECRET") == {"workers", "controller", "gateway", "providers"}
    assert holders("RAY_AUTH_TOKEN") == {"workers", "controller"}


def test_one_port_is_published_and_on_loopback_only() -> None:
    published = {name: service["ports"] for name, service in ALL.items() if "ports" in service}
    assert published == {"net": ["127.0.0.1:8080:8080"]}
    assert OURS["gateway"]["environment"]["SLUICE_GATEWAY__PORT"] == "8080"


def test_whoever_speaks_to_a_replica_shares_its_loopback() -> None:
    shared = {name for name, s in ALL.items() if s.get("network_mode") == "service:net"}
    assert shared == {"workers", "controller", "gateway", "providers"}


def test_everything_that_keeps_running_has_a_healthcheck_and_is_restarted() -> None:
    for name in {*PARTS, *OPTIONAL, "postgres", "redis"}:
        assert ALL[name]["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL")
        assert ALL[name]["restart"] == "unless-stopped"


def test_who_waits_for_health_waits_for_something_that_tells_it() -> None:
    for service in ALL.values():
        for other, wanted in service.get("depends_on", {}).items():
            if wanted["condition"] == "service_healthy":
                assert "healthcheck" in ALL[other]
            if wanted["condition"] == "service_completed_successfully":
                assert ALL[other]["restart"] == "no"


def test_adapters_come_when_asked_for_with_keys_of_their_own_and_no_store() -> None:
    asked = {name for name, service in ALL.items() if "profiles" in service}
    assert asked == set(OPTIONAL)
    adapters = OURS["providers"]
    assert adapters["profiles"] == ["providers"] and adapters["build"]["target"] == "providers"
    assert adapters["image"] != OURS["gateway"]["image"]
    assert [file["path"] for file in adapters["env_file"]] == ["adapters.env"]
    assert "adapters.env" not in str(OURS["gateway"])
    assert not {"SLUICE_SQL_URL", "SLUICE_REDIS_URL"} & adapters["environment"].keys()
    port = process_environment(ProvidersSettings(), "", {})["SLUICE_PROVIDERS_PORT"]
    assert f":{port}/healthz" in str(adapters["healthcheck"])


def test_image_of_the_adapters_makes_their_environment_where_it_is_looked_for() -> None:
    text = (ROOT / "Dockerfile").read_text()
    assert "FROM parts AS providers" in text
    venv = ProvidersSettings().interpreter.parents[1].relative_to(ROOT)
    assert f"VENV=/app/{venv} " in text and "requirements/install.sh providers" in text
    assert text.rstrip().endswith("FROM parts")  # what is built unless a target is named


def test_redis_keeps_what_it_is_given() -> None:
    command = ALL["redis"]["command"]
    options = dict(zip(command[1::2], command[2::2], strict=True))
    assert options["--appendonly"] == "yes"
    assert options["--maxmemory-policy"] == "noeviction"


def test_image_takes_files_that_are_there_and_runs_as_nobody_special() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
    packages = {"gateway/", "routing/", "billing/", "workers/", "migrations/", "models/"}
    assert packages <= set(copied)
    assert "USER sluice" in lines
    assert 'ENTRYPOINT ["sluice"]' in lines
