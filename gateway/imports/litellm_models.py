"""`model_list` of a LiteLLM configuration as models, pools and prices. Pure.

A key is never copied: the file names variables, and a note says what each is to hold.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, TypeGuard

from gateway.catalog.external import KEY_PREFIX
from gateway.fields import INTEGER_MAX
from gateway.imports.notes import Notes
from routing.types import Task

ENVIRON = "os.environ/"
CONTEXT_TOKENS, OUTPUT_TOKENS = 8192, 2048
TOKENS_PER_MTOK = 1_000_000
DECIMALS, COST_USD_MAX = 9, 10_000
MODES = {
    "chat": Task.GENERATE,
    "completion": Task.GENERATE,
    "embedding": Task.EMBED,
    "rerank": Task.RERANK,
    "moderation": Task.MODERATE,
    "audio_transcription": Task.TRANSCRIBE,
    "audio_speech": Task.SPEAK,
}
UNIT_COSTS = {
    Task.RERANK: ("input_cost_per_query", "search_unit_usd"),
    Task.TRANSCRIBE: ("input_cost_per_second", "second_usd"),
    Task.SPEAK: ("input_cost_per_character", "character_usd"),
}
"""What LiteLLM calls the cost of a unit, and the price of that."""
RANKERS = {"cohere": "https://api.cohere.com/v2", "jina_ai": "https://api.jina.ai/v1"}
"""Providers whose rerank is spoken to directly, and where it is."""
PRESETS = {
    "openrouter": "openrouter",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "hosted_vllm": "vllm",
}
OPENAI_URL = "https://api.openai.com/v1"
ADAPTED = {
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "cohere": "https://api.cohere.com",
    "cohere_chat": "https://api.cohere.com",
    "azure": None,
    "bedrock": None,
}
"""Providers that the adapters are tested with, and where each is unless the entry says."""
OPENAI_COMPATIBLE = frozenset({"openai", "text-completion-openai", "custom_openai"})
GUESSED = (
    (re.compile(r"^(gpt|o\d|chatgpt|text-embedding|ft:gpt|whisper|tts|\w+-moderation)"), "openai"),
    (re.compile(r"^claude"), "anthropic"),
    (re.compile(r"^gemini"), "gemini"),
    (re.compile(r"^command"), "cohere_chat"),
)
"""The provider of a name without one."""
PARAMS_READ = frozenset({"model", "api_base", "api_key", "api_version", "aws_region_name", "order"})
CREDENTIALS = frozenset(
    {"aws_access_key_id", "aws_secret_access_key", "aws_session_token", "vertex_credentials"}
)
COSTS = {
    "input_cost_per_token": "cost_input_usd_per_mtok",
    "output_cost_per_token": "cost_output_usd_per_mtok",
    "cache_read_input_token_cost": "cost_cached_input_usd_per_mtok",
}
WHY = {
    "rpm": "limits are those of keys, projects and organizations: sluice key, /admin/v1/limits",
    "tpm": "limits are those of keys, projects and organizations: sluice key, /admin/v1/limits",
    "weight": "calls go where they cost least, waiting included: no share is set by hand",
    "timeout": "the times of external servers are settings of [gateway]",
    "stream_timeout": "the times of external servers are settings of [gateway]",
    "max_tokens": "a call says max_tokens itself, up to max_output_tokens of its model",
}
NO_FIELD = "no pool has such a field: a call says it itself"


@dataclass(frozen=True)
class Entry:
    """One deployment: its place in the document, and what it says."""

    place: str
    name: str
    params: Mapping[str, Any]
    info: Mapping[str, Any]


@dataclass
class ImportedModels:
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    pools: list[dict[str, Any]] = field(default_factory=list)
    prices: dict[str, dict[str, Any]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    """What LiteLLM calls a model, and what it is called here."""
    orders: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """By model the pools that have a place in line."""


def entries(document: Mapping[str, Any], notes: Notes) -> Iterator[Entry]:
    rows = document.get("model_list") or []
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        notes.add("model_list", "is no list")
        return
    for number, row in enumerate(rows):
        place = f"model_list.{number}"
        params = row.get("litellm_params") if isinstance(row, Mapping) else None
        if not isinstance(params, Mapping) or not isinstance(row.get("model_name"), str):
            notes.add(place, "has no model_name with litellm_params")
            continue
        info = row.get("model_info")
        for key in row.keys() - {"model_name", "litellm_params", "model_info"}:
            notes.add(f"{place}.{key}", WHY.get(key, NO_FIELD))
        yield Entry(place, row["model_name"], params, info if isinstance(info, Mapping) else {})


def imported_models(each: Sequence[Entry], notes: Notes) -> ImportedModels:
    out = ImportedModels()
    for entry in each:
        _add(entry, out, notes)
    return out


def model_name(name: str) -> str:
    """As models are named here; empty where nothing is left of it."""
    return re.sub(r"[^A-Za-z0-9._:-]", ":", name).lstrip("._:-")[:128]


def _add(entry: Entry, out: ImportedModels, notes: Notes) -> None:
    name, mode = model_name(entry.name), entry.info.get("mode") or "chat"
    if "*" in f"{entry.name}{entry.params.get('model')}" or not name:
        notes.add(entry.place, f"'{entry.name}' stands for many models: name each of them")
        return
    if not isinstance(mode, str) or mode not in MODES:
        notes.add(entry.place, f"models of mode {mode} are not served yet")
        return
    task = MODES[mode]
    if name in out.models and out.models[name].get("task", Task.GENERATE) != task:
        notes.add(entry.place, f"is left out: {name} is of another mode above")
        return
    pool = _pool(entry, name, task, notes)
    if pool is None:
        return
    if "adapter" in pool and task.is_outside:
        notes.add(entry.place, f"is left out: no adapter here has models of mode {mode}")
        return
    if name != entry.name:
        notes.add(entry.place, f"'{entry.name}' is called {name} here")
    pool = {"name": _pool_name(name, out), **pool}
    out.names[entry.name] = name
    out.pools.append(pool)
    if name not in out.models:
        out.models[name] = _model(entry, name, task, notes)
    _price(entry, name, pool, out, notes, UNIT_COSTS.get(task))
    order = entry.params.get("order")
    if isinstance(order, int):
        out.orders.setdefault(name, []).append((order, pool["name"]))
    _tell_the_rest(entry, notes)


def _model(entry: Entry, name: str, task: Task, notes: Notes) -> dict[str, Any]:
    info = entry.info
    output = info.get("max_output_tokens") or info.get("max_tokens")
    prompt = info.get("max_input_tokens")
    if not _is_count(output) or not _is_count(prompt):
        words = f"says not how large it is: {CONTEXT_TOKENS} tokens of context, {OUTPUT_TOKENS} of"
        notes.add(entry.place, f"{words} answers are assumed; write what is true")
    output = int(output) if _is_count(output) else OUTPUT_TOKENS
    context = max(int(prompt) if _is_count(prompt) else CONTEXT_TOKENS, output)
    model = {"name": name, "context_tokens": context, "max_output_tokens": output}
    return model | ({} if task is Task.GENERATE else {"task": task.value})


def _is_count(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= INTEGER_MAX


def _pool_name(model: str, out: ImportedModels) -> str:
    stem = re.sub(r"[^a-z0-9-]+", "-", model.lower()).strip("-")[:50] or "model"
    taken = {pool["name"] for pool in out.pools}
    names = (stem, *(f"{stem}-{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def _pool(entry: Entry, model: str, task: Task, notes: Notes) -> dict[str, Any] | None:
    """None where nothing here reaches the provider; a note says so."""
    said = str(entry.params.get("model") or "")
    provider, _, name = said.partition("/") if "/" in said else ("", "", said)
    provider = provider or next((p for form, p in GUESSED if form.match(said)), "")
    url = _url(entry, notes)
    base: dict[str, Any] = {"model": model, "capacity_class": "external"}
    if provider in PRESETS:
        base |= {"preset": PRESETS[provider], "upstream_model": name}
        base |= {"base_url": url} if url else {}
        if provider == "hosted_vllm" and not url:
            notes.add(entry.place, "is left out: it has no api_base")
            return None
    elif provider in OPENAI_COMPATIBLE:
        base |= {"base_url": url or OPENAI_URL, "upstream_model": name, "provider": "openai"}
        if url:
            del base["provider"]
    elif task is Task.RERANK and provider in RANKERS:
        base |= {"base_url": url or RANKERS[provider], "upstream_model": name}
        base |= {"provider": provider}
    elif provider and (where := url or _place_of(provider, entry)):
        whole = said if "/" in said else f"{provider}/{said}"
        base |= {"adapter": "litellm", "base_url": where, "upstream_model": whole}
        base |= {"provider": provider}
        if provider not in ADAPTED:
            notes.add(entry.place, f"the adapter of {provider} was never tested here")
    else:
        why = f"no adapter here knows {provider or said}" if provider not in ADAPTED else ""
        notes.add(entry.place, f"is left out: {why or 'it says not where its server is'}")
        return None
    return base | _key(entry, provider, base, notes)


def _place_of(provider: str, entry: Entry) -> str | None:
    region = entry.params.get("aws_region_name")
    if provider == "bedrock" and isinstance(region, str) and not region.startswith(ENVIRON):
        return f"https://bedrock-runtime.{region}.amazonaws.com"
    return ADAPTED.get(provider)


def _url(entry: Entry, notes: Notes) -> str | None:
    url = entry.params.get("api_base")
    if isinstance(url, str) and url.startswith(ENVIRON):
        notes.add(f"{entry.place}.litellm_params.api_base", "a URL is written out here: write it")
        return None
    return url.rstrip("/") if isinstance(url, str) and url.startswith("http") else None


def _key(entry: Entry, provider: str, base: Mapping[str, Any], notes: Notes) -> dict[str, str]:
    """The variable that is to hold the key."""
    key, params = entry.params.get("api_key"), entry.params
    place = f"{entry.place}.litellm_params.api_key"
    if (
        key is None
        and provider in ("hosted_vllm", *OPENAI_COMPATIBLE)
        and base.get("base_url") != (OPENAI_URL)
    ):
        return {}
    from_environment = isinstance(key, str) and key.startswith(ENVIRON)
    old = str(key).removeprefix(ENVIRON) if from_environment else ""
    stem = old.removesuffix("_API_KEY") or (provider or "server") + (
        "" if key is None else f"_{entry.place.rpartition('.')[2]}"
    )
    variable = KEY_PREFIX + re.sub(r"[^A-Z0-9]+", "_", stem.upper()).strip("_")
    holds = f"what {old} holds" if old else "the key"
    if provider == "azure":
        version = params.get("api_version") or "2024-10-21"
        holds = f'{{"api_key": "...", "api_version": "{version}"}}'
    elif provider == "bedrock":
        region = params.get("aws_region_name") or "..."
        holds = (
            '{"aws_access_key_id": "...", "aws_secret_access_key": "...",'
            f' "aws_region_name": "{region}"}}'
        )
    copied = "" if old or key is None else " (a key stands in the file: it was not copied)"
    notes.add(place, f"set the variable {variable} to {holds}{copied}")
    return {"api_key_env": variable}


def _price(
    entry: Entry,
    name: str,
    pool: dict[str, Any],
    out: ImportedModels,
    notes: Notes,
    of_unit: tuple[str, str] | None,
) -> None:
    """The costs of the pool, and of the model's first one the prices of tenants."""
    unit_price = {}
    if of_unit is not None:
        cost, price = of_unit
        value = entry.info.get(cost, entry.params.get(cost))
        if value is not None and (usd := _usd_per_unit(value)) is not None:
            pool["cost_usd_per_unit"] = unit_price[price] = usd
            pool |= dict.fromkeys(("cost_input_usd_per_mtok", "cost_output_usd_per_mtok"), "0")
    for said, field_name in COSTS.items():
        value = entry.info.get(said, entry.params.get(said))
        if value is not None and (usd := _usd_per_mtok(value)) is not None:
            pool[field_name] = usd
    if "cost_input_usd_per_mtok" not in pool or "cost_output_usd_per_mtok" not in pool:
        if name not in out.prices:
            notes.add(entry.place, f"{name} has no price: write its [[prices]], and what it costs")
        return
    if name not in out.prices:
        out.prices[name] = {
            "model": name,
            **{n.removeprefix("cost_"): pool[n] for n in COSTS.values() if n in pool},
            **unit_price,
        }
        notes.add(entry.place, f"tenants pay for {name} what it costs you: see its [[prices]]")


def _usd_per_mtok(per_token: Any) -> str | None:
    return _usd_per_unit(per_token, TOKENS_PER_MTOK)


def _usd_per_unit(cost: Any, units: int = 1) -> str | None:
    """Of so many units, to the nano-USD."""
    try:
        usd = round(Decimal(str(cost)) * units, DECIMALS)
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return f"{usd.normalize():f}" if 0 <= usd <= COST_USD_MAX else None


def _tell_the_rest(entry: Entry, notes: Notes) -> None:
    of_units = {cost for cost, _ in UNIT_COSTS.values()}
    for key in entry.params.keys() - PARAMS_READ - COSTS.keys() - of_units:
        words = WHY.get(key, NO_FIELD)
        if key in CREDENTIALS:
            words = "is a secret: it was not copied, see api_key"
        notes.add(f"{entry.place}.litellm_params.{key}", words)
