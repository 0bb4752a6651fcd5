"""docker-compose.yml as data, its variables filled in as Compose does."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tests.stack_config import ROOT

FILE = ROOT / "docker-compose.yml"
EXAMPLE = ROOT / "compose.env.example"
PARTS = ("ledger", "workers", "controller", "gateway")
"""Those that keep running, in an order in which what they depend on comes first."""

OPTIONAL = ("providers",)
"""Those of a profile, which somebody has to ask for."""

_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::\?[^}]*|:-(?P<default>[^}]*))\}")


def services(variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Every service by name. Raises KeyError for a variable without a value and a default."""
    found: dict[str, dict[str, Any]] = _filled(yaml.safe_load(FILE.read_text()), variables)
    return found["services"]


def secret_names() -> list[str]:
    """The variables that the example leaves to the user."""
    return re.findall(r"^(\w+)=", EXAMPLE.read_text(), re.MULTILINE)


def _filled(value: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _filled(part, variables) for key, part in value.items()}
    if isinstance(value, list):
        return [_filled(part, variables) for part in value]
    if not isinstance(value, str):
        return value
    return _VARIABLE.sub(
        lambda found: variables.get(found["name"]) or found["default"] or variables[found["name"]],
        value,
    )
