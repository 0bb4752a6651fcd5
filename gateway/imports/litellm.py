"""A configuration file of LiteLLM's proxy as a declaration of models and a routing policy, and what
of it has no counterpart. Pure: it reads a text and writes none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from gateway.imports.litellm_models import Entry, entries, imported_models
from gateway.imports.litellm_policy import policy_of
from gateway.imports.notes import Note, Notes

ALIAS = "router_settings.model_group_alias"


class UnreadableConfig(ValueError):
    """What was given is no such file."""


@dataclass(frozen=True)
class Imported:
    models_toml: str
    policy_yaml: str
    models: int
    pools: int
    notes: tuple[Note, ...]


def import_litellm(text: str) -> Imported:
    """Raises UnreadableConfig."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as wrong:
        raise UnreadableConfig(str(wrong).splitlines()[0]) from wrong
    if not isinstance(document, Mapping):
        raise UnreadableConfig("it has no keys")
    notes = Notes()
    each = [*entries(document, notes)]
    models = imported_models([*each, *_aliases(document, each, notes)], notes)
    policy = policy_of(document, models, notes)
    tables = {
        "models": [*models.models.values()],
        "pools": models.pools,
        "prices": [*models.prices.values()],
    }
    counts = len(models.models), len(models.pools)
    return Imported(toml_of(tables), policy, *counts, tuple(notes.told))


def _aliases(document: Mapping[str, Any], each: list[Entry], notes: Notes) -> list[Entry]:
    """Another name of a model is a model of its own, with the same servers."""
    settings = document.get("router_settings")
    aliases = settings.get("model_group_alias") if isinstance(settings, Mapping) else None
    out: list[Entry] = []
    for alias, meant in aliases.items() if isinstance(aliases, Mapping) else ():
        name = meant.get("model") if isinstance(meant, Mapping) else meant
        same = [
            Entry(entry.place, str(alias), entry.params, entry.info)
            for entry in each
            if entry.name == name
        ]
        if not same:
            notes.add(f"{ALIAS}.{alias}", f"names no model of model_list: {name}")
        out += same
    return out


def toml_of(tables: Mapping[str, list[dict[str, Any]]]) -> str:
    """Arrays of flat tables; a text of JSON is one of TOML."""
    blocks = []
    for name, rows in tables.items():
        for row in rows:
            lines = [f"{key} = {_value(value)}" for key, value in row.items()]
            blocks.append("\n".join((f"[[{name}]]", *lines)))
    return "\n\n".join(blocks) + "\n"


def _value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
