"""`sluice org | project | key`: the first tenant without a line of code."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tests.gateway.commands.sluice import Sluice
from tests.gateway.edge import Edge, body

TENANT = (
    ("org", "create", "Reed & Co", "--slug", "reed"),
    ("project", "create", "web", "--org", "reed"),
)


async def test_first_tenant_is_made_by_names_and_its_key_calls(one: Edge, sluice: Sluice) -> None:
    for words in TENANT:
        await sluice(*words)
    await sluice("project", "entitlements", "reed/web", "--model", "tale")
    secret = await sluice.quiet("key", "create", "first", "--project", "reed/web")
    answer = await one.post(body(), headers={"authorization": f"Bearer {secret}"})
    assert answer.status == 200
    listed = await sluice.json("key", "list", "--project", "reed/web")
    assert [row["name"] for row in listed["data"]] == ["first"]
    assert secret not in json.dumps(listed)


async def test_slug_is_made_from_the_name_and_may_be_said(sluice: Sluice) -> None:
    assert (await sluice.json("org", "create", "Reed & Co"))["slug"] == "reed-co"
    assert (await sluice.json("org", "create", "Reed", "--slug", "r2"))["slug"] == "r2"
    assert "--slug" in await sluice.refused("org", "create", "…", status=2)


async def test_organization_is_shown_by_slug_and_by_id(sluice: Sluice) -> None:
    made = await sluice.json("org", "create", "Reed")
    assert await sluice.json("org", "show", "reed") == made
    assert await sluice.json("org", "show", made["id"]) == made
    assert f"slug                       {made['slug']}\n" in await sluice("org", "show", "reed")
    table = (await sluice("org", "list")).splitlines()
    assert table[0].split() == [
        "ID", "SLUG", "NAME", "STATUS", "SETTLEMENT_MODE", "CREDIT_LIMIT_USD", "CREATED_AT",
    ]  # fmt: skip
    assert any(line.split()[:4] == [made["id"], "reed", "Reed", "active"] for line in table)


@pytest.mark.parametrize("frozen", [("org", "reed"), ("project", "reed/web")], ids=" ".join)
async def test_what_is_frozen_calls_nothing_until_it_is_unfrozen(
    frozen: tuple[str, str], one: Edge, sluice: Sluice
) -> None:
    noun, name = frozen
    for words in (*TENANT, ("project", "create", "beside", "--org", "reed")):
        await sluice(*words)
    keys = {
        project: await sluice.quiet("key", "create", "first", "--project", f"reed/{project}")
        for project in ("web", "beside")
    }
    plain = body(stream=False, stream_options=None)
    for verb, status, expected in (("freeze", "frozen", 403), ("unfreeze", "active", 200)):
        assert (await sluice.json(noun, verb, name))["status"] == status
        for project, secret in keys.items():
            answer = await one.post(plain, headers={"authorization": f"Bearer {secret}"})
            concerned = noun == "org" or project == "web"
            assert answer.status == (expected if concerned else 200), (project, answer.body)
            assert answer.status == 200 or answer.error_code == "organization_frozen"


async def test_how_an_organization_pays_is_set_and_taken_away(sluice: Sluice) -> None:
    await sluice("org", "create", "Reed", "--settlement-mode", "prepaid")
    told = await sluice.json("org", "set", "reed", "--credit-limit-usd", "10")
    assert (told["settlement_mode"], told["credit_limit_usd"]) == ("prepaid", "10.00")
    told = await sluice.json("org", "set", "reed", "--insufficient-quota-status", "402")
    assert (told["credit_limit_usd"], told["insufficient_quota_status"]) == ("10.00", 402)
    told = await sluice.json("org", "set", "reed", "--credit-limit-usd", "none")
    assert told["credit_limit_usd"] is None
    wrong = await sluice.refused("org", "set", "reed", "--credit-limit-usd", "ten")
    assert wrong.startswith("Error: credit_limit_usd: ") and "'ten'" in wrong
    assert "say what to change" in await sluice.refused("org", "set", "reed", status=2)


async def test_what_an_organization_bought_is_set_and_taken_away(sluice: Sluice) -> None:
    await sluice("org", "create", "Reed", "--tier", "silver")
    assert (await sluice.json("org", "show", "reed"))["tier"] == "silver"
    for said, tier in (("gold", "gold"), ("none", None)):
        assert (await sluice.json("org", "set", "reed", "--tier", said))["tier"] == tier


async def test_secret_of_a_rotated_key_is_new_and_a_revoked_key_is_refused(
    one: Edge, sluice: Sluice
) -> None:
    for words in TENANT:
        await sluice(*words)
    made = await sluice.json("key", "create", "first", "--project", "reed/web")
    rotated = await sluice.quiet("key", "rotate", made["id"])
    assert rotated != made["secret"]

    async def status(secret: str) -> int | None:
        sent = body(stream=False, stream_options=None)
        return (await one.post(sent, headers={"authorization": f"Bearer {secret}"})).status

    assert (await status(made["secret"]), await status(rotated)) == (401, 200)
    assert (await sluice.json("key", "revoke", made["id"]))["revoked_at"] is not None
    assert await status(rotated) == 401
    assert "There is no" in await sluice.refused("key", "rotate", made["id"])


async def test_secret_stands_alone_on_stdout_and_the_word_about_it_on_stderr(
    sluice: Sluice,
) -> None:
    for words in TENANT:
        await sluice(*words)
    alone = await sluice.run("key", "create", "a", "--project", "reed/web", "--quiet")
    assert alone.stdout.startswith("sk-sluice-") and alone.stdout.count("\n") == 1
    assert alone.stderr == ""
    told = await sluice.run("key", "create", "b", "--project", "reed/web")
    assert told.stdout.count("sk-sluice-") == 1 and "this once" in told.stderr


async def test_key_ends_when_it_is_said_and_never_in_the_past(sluice: Sluice) -> None:
    for words in TENANT:
        await sluice(*words)
    create = ("key", "create", "trial", "--project", "reed/web", "--expires-at")
    until = await sluice.json(*create, "2099-12-31")
    assert datetime.fromisoformat(until["expires_at"]) == datetime(2099, 12, 31, tzinfo=UTC)
    assert "expires_at" in await sluice.refused(*create, "2001-01-01")
    assert "is no time as in" in await sluice.refused(*create, "soon", status=2)


@pytest.mark.parametrize("noun, kind", [("org", "org"), ("project", "project"), ("key", "key")])
async def test_limits_and_entitlements_belong_to_each_noun(
    sluice: Sluice, noun: str, kind: str
) -> None:
    organization = await sluice.quiet("org", "create", "Reed")
    project = await sluice.quiet("project", "create", "web", "--org", "reed")
    key = (await sluice.json("key", "create", "a", "--project", "reed/web"))["id"]
    named = {"org": "reed", "project": "reed/web", "key": key}[noun]
    scope = f"{kind}:{dict(org=organization, project=project, key=key)[noun]}"
    assert f"{scope} has no limits" in await sluice(noun, "limits", named)
    told = await sluice.json(noun, "limits", named, "--requests-per-minute", "60")
    assert (told["scope"], told["requests_per_minute"]) == (scope, 60)
    told = await sluice.json(noun, "limits", named, "--concurrency", "8")
    assert (told["requests_per_minute"], told["concurrency"]) == (60, 8)
    await sluice(noun, "limits", named, "--model", "tale", "--tokens-per-minute", "5")
    await sluice(noun, "limits", named, "--user", "*", "--concurrency", "1")
    shown = await sluice(noun, "limits", named)
    assert "requests_per_minute 60, concurrency 8" in shown
    assert "/model:tale" in shown and "/user:*" in shown
    told = await sluice.json(noun, "limits", named, "--concurrency", "none")
    assert told["concurrency"] is None
    assert "any" in await sluice(noun, "entitlements", named)
    told = await sluice.json(noun, "entitlements", named, "--model", "tale", "--tier", "flex")
    assert (told["models"], told["tiers"]) == (["tale"], ["flex"])
    assert await sluice.json(noun, "entitlements", named) == told
    told = await sluice.json(noun, "entitlements", named, "--model", "any")
    assert (told["models"], told["tiers"]) == (None, ["flex"])
    assert "nowhere" in await sluice.refused(noun, "entitlements", named, "--model", "nowhere")
    private = ("--pool", "tale-spot", "--data-collection", "deny")
    told = await sluice.json(noun, "entitlements", named, *private)
    assert (told["pools"], told["data_collection"]) == (["tale-spot"], "deny")
    free = ("--pool", "any", "--data-collection", "any")
    told = await sluice.json(noun, "entitlements", named, *free)
    assert (told["pools"], told["data_collection"]) == (None, None)


async def test_what_is_not_there_is_named_with_how_to_name_it(sluice: Sluice) -> None:
    for words in TENANT:
        await sluice(*words)
    for words, expected in (
        (("org", "show", "none"), "There is no organization 'none'"),
        (("project", "create", "x", "--org", "none"), "There is no organization 'none'"),
        (("project", "show", "reed/app"), "There is no project 'reed/app'"),
        (("project", "show", "web"), "SLUG/NAME"),
        (("key", "create", "x", "--project", "none/web"), "There is no organization 'none'"),
        (("key", "show", "key_none"), "There is no key 'key_none'"),
        (("key", "revoke", "../organizations"), "Invalid URL"),
        (("org", "create", "Reed", "--slug", "reed"), "the slug 'reed' is taken"),
        (("org", "create", "Reed", "--slug", "Reed!"), "slug: "),
        (("org", "create", ""), "no slug"),
    ):
        done = await sluice.run(*words)
        assert done.exit_code in (1, 2) and done.stdout == ""
        assert expected in done.stderr and "Traceback" not in done.stderr
    await sluice("project", "create", "web", "--org", "reed")
    assert "Several projects" in await sluice.refused("project", "show", "reed/web")


async def test_names_cannot_write_over_the_terminal(sluice: Sluice) -> None:
    await sluice("org", "create", "Re\u009bd\u202e", "--slug", "reed")
    table = await sluice("org", "list")
    assert "Re\\x9bd\\u202e" in table and "\u202e" not in table
