"""`router_settings` of a LiteLLM configuration as a routing policy: the one that comes with Sluice,
with rules in front for models that have an order or fallbacks. Pure but for the shipped document.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from gateway.imports.litellm_models import ImportedModels
from gateway.imports.notes import Notes
from gateway.policies.shipped import shipped_document
from gateway.policies.words import RULES_MAX

SORTS = {"cost-based-routing": "price", "latency-based-routing": "latency"}
CAUSES = {"fallbacks": "general", "context_window_fallbacks": "context_window"}
READ = frozenset(
    {"routing_strategy", "model_group_alias", "default_fallbacks", "max_fallbacks", *CAUSES}
)
WHY = {
    "num_retries": "the gateway tries other places of a model by itself",
    "allowed_fails": "a server that fails is left alone for a time by itself",
    "cooldown_time": "a server that fails is left alone for a time by itself",
    "timeout": "the times of external servers are settings of [gateway]",
    "stream_timeout": "the times of external servers are settings of [gateway]",
    "request_timeout": "the times of external servers are settings of [gateway]",
    "redis_host": "the store of Sluice is its own: redis_url",
    "redis_port": "the store of Sluice is its own: redis_url",
    "redis_password": "the store of Sluice is its own: redis_url",
    "redis_url": "the store of Sluice is its own: redis_url",
    "master_key": "administrators call with the admin_key of ready.json; it was not copied",
    "database_url": "keys, teams and spend of LiteLLM's database are no part of its file",
    "max_budget": "budgets are those of keys, projects and organizations: sluice budget set",
    "budget_duration": "budgets are those of keys, projects and organizations: sluice budget set",
    "drop_params": "a field that a server lacks is refused by its name, never dropped",
    "success_callback": "metrics are at /metrics, calls at /admin/v1/requests",
    "failure_callback": "metrics are at /metrics, calls at /admin/v1/requests",
    "callbacks": "metrics are at /metrics, calls at /admin/v1/requests",
    "cache": "answers are not cached; an Idempotency-Key repeats one",
}
NOTHING = "has no counterpart"
SECTIONS = ("router_settings", "litellm_settings", "general_settings")


def policy_of(document: Mapping[str, Any], models: ImportedModels, notes: Notes) -> str:
    """The document of the policy."""
    shipped = yaml.safe_load(shipped_document())
    settings = _settings(document)
    fallbacks = _fallbacks(settings, models, notes)
    sort = SORTS.get(str(settings.get("routing_strategy")))
    default_route = shipped["default"]["route"] | ({"sort": sort} if sort else {})
    if settings.get("routing_strategy") and not sort:
        words = "calls go where they cost least, waiting included"
        notes.add("router_settings.routing_strategy", f"{settings['routing_strategy']}: {words}")
    rules = []
    each_max = (RULES_MAX - len(shipped["rules"])) // (len(shipped["rules"]) + 1)
    wanted = _with_rules(models, fallbacks)
    for model in wanted[each_max:]:
        notes.add("router_settings", f"{model} has no rule: a policy has {RULES_MAX} at most")
    for number, model in enumerate(wanted[:each_max], 1):
        line = _words(model, models, fallbacks)
        clause = f'req.model == "{model}"'
        for rule in shipped["rules"]:
            rules.append(
                {
                    "id": f"model-{number}-{rule['id']}",
                    "when": [clause, *rule["when"]],
                    "route": rule["route"] | line,
                }
            )
        rules.append({"id": f"model-{number}", "when": [clause], "route": default_route | line})
    policy = {
        "apiVersion": shipped["apiVersion"],
        "kind": shipped["kind"],
        "rules": [*rules, *shipped["rules"]],
        "default": {"route": default_route},
        "tests": shipped["tests"],
    }
    _tell_the_rest(document, notes)
    text: str = yaml.dump(policy, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    return text


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """A policy has no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _settings(document: Mapping[str, Any]) -> dict[str, Any]:
    """Both sections may say the same; the router's own wins."""
    merged: dict[str, Any] = {}
    for section in ("litellm_settings", "router_settings"):
        said = document.get(section)
        merged |= said if isinstance(said, Mapping) else {}
    return merged


def _fallbacks(
    settings: Mapping[str, Any], models: ImportedModels, notes: Notes
) -> dict[str, dict[str, list[str]]]:
    out: dict[str, dict[str, list[str]]] = {}
    for key, cause in CAUSES.items():
        for pair in _pairs(settings.get(key)):
            for model, others in pair.items():
                place = f"router_settings.{key}.{model}"
                named = [models.names[o] for o in _list(others) if o in models.names]
                if model not in models.names or not named:
                    notes.add(place, "names a model that was not taken over")
                else:
                    out.setdefault(models.names[model], {})[cause] = named[:10]
    if everywhere := [
        models.names[o] for o in _list(settings.get("default_fallbacks")) if o in models.names
    ]:
        for model in models.models:
            others = [other for other in everywhere if other != model]
            if others:
                out.setdefault(model, {}).setdefault("general", others[:10])
    return out


def _pairs(value: Any) -> Iterable[Mapping[str, Any]]:
    return [pair for pair in _list(value) if isinstance(pair, Mapping)]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _with_rules(models: ImportedModels, fallbacks: Mapping[str, Any]) -> list[str]:
    ordered = [m for m, line in models.orders.items() if len({place for place, _ in line}) > 1]
    return [m for m in models.models if m in fallbacks or m in ordered]


def _words(model: str, models: ImportedModels, fallbacks: Mapping[str, Any]) -> dict[str, Any]:
    line = sorted(models.orders.get(model, ()))
    order = {"order": [f"pool:{pool}" for _, pool in line]} if len(line) > 1 else {}
    return order | ({"fallbacks": fallbacks[model]} if model in fallbacks else {})


def _tell_the_rest(document: Mapping[str, Any], notes: Notes) -> None:
    for section in SECTIONS:
        said = document.get(section)
        for key in said if isinstance(said, Mapping) else ():
            if key not in READ:
                notes.add(f"{section}.{key}", WHY.get(key, NOTHING))
    if document.get("environment_variables"):
        notes.add("environment_variables", "may be secrets: they were not copied")
    for key in document.keys() - {"model_list", "environment_variables", *SECTIONS}:
        notes.add(str(key), NOTHING)
