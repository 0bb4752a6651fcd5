"""`sluice policy`: documents checked without a stack, compared, put into force and back."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.commands.policy import policy
from gateway.policies.shipped import shipped_document
from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import Edge

HEAD = "apiVersion: gateway/v1\nkind: RoutingPolicy\nrules: []\n"


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("SLUICE_CONFIG", "SLUICE_DATA"):
        monkeypatch.setenv(name, "")  # what the command passes on ends with the test
        monkeypatch.delenv(name)


def test_the_shipped_policy_is_valid(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(shipped_document())
    result = CliRunner().invoke(policy, ["validate", "p.yaml", "--json"])
    assert (result.exit_code, json.loads(result.output)["rules"]) == (0, 2)


def test_an_unknown_pool_is_named_at_its_place(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(HEAD + "default: {route: {only: [pool:nowhere]}}\n")
    result = CliRunner().invoke(policy, ["validate", "p.yaml"])
    assert result.exit_code == 1
    assert "p.yaml:4:26: unknown pool 'nowhere'" in result.output


def test_without_a_stack_every_name_of_the_settings_is_known_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "sluice.toml").write_text(
        '[[models]]\nname = "free"\ncontext_tokens = 9\nmax_output_tokens = 9\nsize_rank = 1\n'
        'quality = 0.5\n[[pools]]\nname = "p"\nmodel = "free"\ncapacity_class = "external"\n'
        'base_url = "https://api.example.com"\nupstream_model = "x"\nprovider = "far"\n'
    )
    (tmp_path / "p.yaml").write_text(
        HEAD + "default:\n  route:\n    only: [pool:p, provider:far, provider:farr]\n"
        "    fallbacks: [free]\n    quantizations: [fp16, fp61]\n"
    )
    result = CliRunner().invoke(policy, ["validate", "p.yaml"])
    assert result.output.splitlines() == [
        "p.yaml:6:12: the model of pool 'p' has no price",
        "p.yaml:6:20: no model of provider 'far' has a price",
        "p.yaml:6:34: unknown provider 'farr'; did you mean 'far'?",
        "p.yaml:7:17: the model 'free' has no price",
        "p.yaml:8:27: no weights are named 'fp61'; did you mean 'fp16'?",
    ]


def test_what_has_no_effect_is_warned_of_and_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        HEAD + "default: {route: {allow_fallbacks: false, fallbacks: [sluice-small]}}\n"
    )
    result = CliRunner().invoke(policy, ["validate", "p.yaml"])
    assert result.output.splitlines() == [
        "p.yaml:4:43: 'fallbacks' has no effect beside 'allow_fallbacks: false'",
        "p.yaml: valid, 0 rules and a default",
    ]
    assert result.exit_code == 0
    result = CliRunner().invoke(policy, ["validate", "p.yaml", "--json"])
    told = json.loads(result.output)
    assert told["valid"] and [each["line"] for each in told["warnings"]] == [4]


def test_each_test_of_a_document_has_its_result(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(shipped_document().replace("{rule: flex}", "{rule: default}"))
    result = CliRunner().invoke(policy, ["test", "p.yaml"])
    assert result.exit_code == 1
    assert "passed  a call that pays for speed: priority matches" in result.output
    assert "failed  a call that has time: flex matches, and default is expected" in result.output
    assert result.output.endswith("p.yaml: 3 tests, 1 failed\n")
    (tmp_path / "p.yaml").write_text(shipped_document())
    result = CliRunner().invoke(policy, ["test", "p.yaml", "--json"])
    assert (result.exit_code, json.loads(result.output)["passed"]) == (0, True)


async def test_a_file_is_compared_activated_and_rolled_back(
    one: Edge, sluice: Sluice, tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(shipped_document().replace('"0.0001"', '"0.0003"'))
    assert await sluice("policy", "diff", str(file)) == (
        "default: changed\n  route.wait_usd_per_s: 0.0001 -> 0.0003\n1 difference from version 1\n"
    )
    said = await sluice("policy", "activate", str(file), "--comment", "Waiting costs more")
    assert said == "version 2 is active\n" and one.parts.policy_keeper.version == 2
    found = await sluice.json("policy", "diff", str(file))
    assert found == {"version": 2, "changes": []}
    assert await sluice("policy", "rollback", "--comment", "No") == "version 1 is active\n"
    again = ("policy", "activate", "2", "--comment", "After all", "--expects")
    assert "version 1 is active, and not 9" in await sluice.refused(*again, "9")
    assert (await sluice.json(*again, "1"))["status"] == "active"


async def test_a_document_that_makes_no_policy_is_compared_with_none(
    one: Edge, sluice: Sluice, tmp_path: Path
) -> None:
    (tmp_path / "p.yaml").write_text(HEAD)
    done = await sluice.run("policy", "diff", str(tmp_path / "p.yaml"))
    assert (done.exit_code, done.stdout) == (
        1,
        f"{tmp_path / 'p.yaml'}:1:1: 'default' is missing\n",
    )


async def test_mistakes_are_printed_at_their_places_and_nothing_is_stored(
    one: Edge, sluice: Sluice, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(HEAD + "default: {route: {only: [pool:nowhere], sort: 3}}\n")
    done = await sluice.run("policy", "activate", str(file), "--comment", "x")
    assert done.exit_code == 1
    assert f"{file}:4:26: unknown pool 'nowhere'" in done.stdout
    assert f"{file}:4:47: this is to be one of" in done.stdout
    assert one.parts.policy_keeper.version == 1
    missing = await sluice.refused("policy", "activate", "no-file.yaml", "--comment", "x")
    assert "No such file" in missing
