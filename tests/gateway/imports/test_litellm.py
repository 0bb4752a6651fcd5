"""A LiteLLM configuration becomes a declaration and a policy that hold; nothing is lost unsaid, and
no key is copied."""

from __future__ import annotations

import json
import re
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gateway.catalog.declaration import read_document
from gateway.cli import main
from gateway.imports.litellm import UnreadableConfig, import_litellm, toml_of
from gateway.policies.document import examine
from gateway.policies.names import CatalogueNames

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guides" / "litellm.md").read_text()
EXAMPLE = re.search(r'```yaml title="config.yaml"\n(.*?)```', PAGE, re.DOTALL)[1]  # type: ignore[index]
PUBLISHED = sorted(
    (ROOT / ".venv-providers").glob("lib/*/site-packages/litellm/proxy/example_config_yaml/*.yaml")
)


def tables(text: str) -> dict[str, Any]:
    """What is declared; both files hold, and the policy names what the declaration has."""
    imported = import_litellm(text)
    declared = tomllib.loads(imported.models_toml)
    declaration = read_document(declared)
    assert declaration.mistakes == () or not declared
    pools = frozenset(pool.name for pool in declaration.pools.values())
    models = frozenset(model.name for model in declaration.models.values())
    examined = examine(imported.policy_yaml, known=CatalogueNames(pools=pools, models=models))
    assert examined.mistakes == ()
    return declared | {"notes": imported.notes, "policy": yaml.safe_load(imported.policy_yaml)}


def test_example_of_the_page_is_taken_over() -> None:
    out = tables(EXAMPLE)
    assert [model["name"] for model in out["models"]] == ["gpt-4o-mini", "claude"]
    first, second, third = out["pools"]
    assert (first["base_url"], first["upstream_model"]) == (
        "https://api.openai.com/v1",
        "gpt-4o-mini",
    )
    assert (first["cost_input_usd_per_mtok"], first["cost_output_usd_per_mtok"]) == ("0.15", "0.6")
    assert (second["name"], second["adapter"]) == ("gpt-4o-mini-2", "litellm")
    assert (third["upstream_model"], third["base_url"]) == (
        "anthropic/claude-haiku-4-5",
        "https://api.anthropic.com",
    )
    assert out["prices"][1]["output_usd_per_mtok"] == "5"
    rules = {rule["id"]: rule for rule in out["policy"]["rules"]}
    assert rules["model-1"]["when"] == ['req.model == "gpt-4o-mini"']
    assert rules["model-1"]["route"]["fallbacks"] == {"general": ["claude"]}
    assert rules["model-1"]["route"]["order"] == ["pool:gpt-4o-mini", "pool:gpt-4o-mini-2"]
    assert rules["model-1-flex"]["route"]["wait_usd_per_s"] == "0.0000002"


def test_command_writes_both_files_and_says_what_the_page_says(tmp_path: Path) -> None:
    config, out = tmp_path / "config.yaml", tmp_path / "imported"
    config.write_text(EXAMPLE)
    done = CliRunner().invoke(main, ["import", "litellm", str(config), "--out", str(out)])
    assert done.exit_code == 0, done.output
    said = re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert said is not None
    lines = done.output.replace(f"{tmp_path}/", "").splitlines()
    assert {*said[1].splitlines()} <= {*lines}
    assert {path.name for path in out.iterdir()} == {"models.toml", "policy.yaml"}
    again = CliRunner().invoke(main, ["import", "litellm", str(config), "--out", str(out)])
    assert again.exit_code == 1 and "--force writes over it" in again.output


@pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
def test_published_examples_are_taken_over_and_what_is_left_is_said(path: Path) -> None:
    """Those of the installed package."""
    text = path.read_text()
    out = tables(text)
    document = yaml.safe_load(text)
    places = " ".join(note.place for note in out["notes"])
    pooled = len(out.get("pools", ()))
    for number, row in enumerate(document.get("model_list") or ()):
        assert pooled or f"model_list.{number}" in places, row
    for key in document.keys() - {"model_list", "router_settings"}:
        assert not document[key] or key in places
    assert_no_key_of(document, import_litellm(text))


def test_examples_of_the_package_are_there() -> None:
    assert len(PUBLISHED) > 10


SECRET = "sk-this-is-a-secret-0123456789"


def test_key_that_stands_in_the_file_is_copied_nowhere() -> None:
    params = {"model": "anthropic/claude-haiku-4-5", "api_key": SECRET}
    more = {"model": "bedrock/claude", "aws_region_name": "eu-west-3"}
    more["aws_secret_access_key"] = SECRET
    document = {
        "model_list": [
            {"model_name": "a", "litellm_params": params},
            {"model_name": "b", "litellm_params": more},
        ],
        "general_settings": {"master_key": SECRET},
        "environment_variables": {"OPENAI_API_KEY": SECRET},
    }
    out = tables(yaml.safe_dump(document))
    assert SECRET not in json.dumps(out)
    assert [pool["api_key_env"] for pool in out["pools"]] == [
        "SLUICE_PROVIDER_KEY_ANTHROPIC_0",
        "SLUICE_PROVIDER_KEY_BEDROCK",
    ]
    words = " ".join(note.words for note in out["notes"])
    assert "a key stands in the file: it was not copied" in words


def test_alias_is_a_model_with_the_same_servers_and_wildcards_are_told() -> None:
    document = yaml.safe_load(EXAMPLE)
    document["router_settings"]["model_group_alias"] = {"mini": "gpt-4o-mini", "no": "nobody"}
    document["model_list"].append(
        {"model_name": "x/*", "litellm_params": {"model": "openai/*"}},
    )
    out = tables(yaml.safe_dump(document))
    assert sum(pool["model"] == "mini" for pool in out["pools"]) == 2
    told = {note.place: note.words for note in out["notes"]}
    assert "stands for many models" in told["model_list.3"]
    assert "names no model" in told["router_settings.model_group_alias.no"]


OF_MODES: dict[str, tuple[str, dict[str, Any], str | None, str | None]] = {
    "rerank": ("cohere/rerank-v3.5", {"input_cost_per_query": 0.002}, "rerank", "search_unit_usd"),
    "moderation": ("omni-moderation-latest", {}, "moderate", None),
    "audio_transcription": (
        *("whisper-1", {"input_cost_per_second": 0.0001}, "transcribe", "second_usd"),
    ),
    "audio_speech": ("tts-1", {"input_cost_per_character": 1.5e-05}, "speak", "character_usd"),
    "image_generation": ("dall-e-3", {"input_cost_per_image": 0.04}, None, None),
}


@pytest.mark.parametrize("mode", OF_MODES)
def test_modes_are_tasks_and_their_units_have_costs_and_prices(mode: str) -> None:
    upstream, costs, task, price = OF_MODES[mode]
    params = {"model": upstream, "api_key": "os.environ/THEIR_API_KEY"}
    row = {"model_name": "m", "litellm_params": params, "model_info": {"mode": mode, **costs}}
    document: dict[str, Any] = {"model_list": [row]}
    if task is None:
        told = {note.place: note.words for note in import_litellm(yaml.safe_dump(document)).notes}
        assert told["model_list.0"] == f"models of mode {mode} are not served yet"
        return
    out = tables(yaml.safe_dump(document))
    (model,), (pool,) = out["models"], out["pools"]
    assert model["task"] == task and "adapter" not in pool
    assert pool["base_url"] == (
        "https://api.cohere.com/v2" if task == "rerank" else "https://api.openai.com/v1"
    )
    if price is not None:
        (sold,), (cost,) = out["prices"], costs.values()
        assert Decimal(sold[price]) == Decimal(pool["cost_usd_per_unit"]) == Decimal(str(cost))
    document["model_list"].append({**row, "model_info": {"mode": "chat"}})
    adapted = {"model": "bedrock/x", "aws_region_name": "eu-west-3"}
    document["model_list"].append({**row, "litellm_params": adapted})
    again = tables(yaml.safe_dump(document))
    words = {note.place: note.words for note in again["notes"]}
    assert len(again["pools"]) == 1
    assert words["model_list.1"] == "is left out: m is of another mode above"
    assert words["model_list.2"] == f"is left out: no adapter here has models of mode {mode}"


def test_many_models_with_fallbacks_get_no_more_rules_than_a_policy_may_have() -> None:
    rows = [
        {"model_name": f"m{n}", "litellm_params": {"model": "openai/m", "api_key": "os.environ/A"}}
        for n in range(60)
    ]
    fallbacks = [{f"m{n}": ["m0"]} for n in range(1, 60)]
    out = tables(yaml.safe_dump({"model_list": rows, "router_settings": {"fallbacks": fallbacks}}))
    assert any("has no rule" in note.words for note in out["notes"])


KEYS = (
    *("model_list", "model_name", "litellm_params", "model", "model_info", "mode"),
    *("api_base", "api_key", "router_settings", "fallbacks", "model_group_alias"),
    *(
        "rerank",
        "input_cost_per_query",
        "order",
        "input_cost_per_token",
        "output_cost_per_token",
        "max_input_tokens",
    ),
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@given(st.dictionaries(st.sampled_from(["model_list", "router_settings", "x"]), JUNK))
def test_whatever_a_document_says_both_files_hold(document: dict[str, Any]) -> None:
    tables(yaml.safe_dump(document))


def test_configuration_of_which_nothing_is_taken_over_writes_no_file(tmp_path: Path) -> None:
    config, out = tmp_path / "config.yaml", tmp_path / "imported"
    config.write_text("litellm_settings: {drop_params: true}")
    done = CliRunner().invoke(main, ["import", "litellm", str(config), "--out", str(out)])
    assert done.exit_code == 1 and "nothing in it can be taken over" in done.output
    assert "litellm_settings.drop_params: a field" in done.output
    assert not out.exists()


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "just words"])
def test_what_is_no_configuration_is_refused(text: str) -> None:
    with pytest.raises(UnreadableConfig):
        import_litellm(text)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), st.text() | st.integers()))
def test_table_is_read_as_it_was_written(row: dict[str, Any]) -> None:
    assert tomllib.loads(toml_of({"t": [row]}))["t"] == [row]


def assert_no_key_of(document: Any, imported: Any) -> None:
    written = imported.models_toml + imported.policy_yaml + str(imported.notes)
    for key in _keys(document):
        assert key not in written


def _keys(value: Any) -> list[str]:
    if isinstance(value, list):
        return [key for item in value for key in _keys(item)]
    if not isinstance(value, dict):
        return []
    own = [
        text
        for name, text in value.items()
        if str(name).endswith(("api_key", "master_key", "password", "secret_access_key"))
        and isinstance(text, str)
        and len(text) > 8
        and not text.startswith("os.environ/")
    ]
    return own + [key for item in value.values() for key in _keys(item)]
