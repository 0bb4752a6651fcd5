"""An operator's way with the routing policy: a rule is written, refused, mended, tested, tried,
activated, followed by a real call, and taken back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open
from tests.browser.test_console import ask
from tests.journeys.calls import body
from tests.stack import Stack, Tenant

expect.set_options(timeout=15_000)

RULES = "rules:\n"
TESTS = "tests:\n"
OTHER = {"small-reserved": "small-spot", "small-spot": "small-reserved"}


@pytest.fixture
def tenant(stack: Stack) -> Iterator[Tenant]:
    """Whatever a test activates, the version that was in force before it is again after it."""
    before = stack.admin("GET", "/policies/active")["version"]
    yield stack.tenant()
    if stack.admin("GET", "/policies/active")["version"] != before:
        stack.admin("POST", "/policies/rollback", {"comment": "end of a test", "to": before})


def rule_for(
    tenant: Tenant, pool: str, attribute: str = "tenant.project", *, canary_and_shadow: str = ""
) -> str:
    return (
        f"{RULES}  - id: one-project\n"
        f"    when: ['{attribute} == \"{tenant.project}\"']\n"
        f"    route: {{only: ['pool:{pool}']}}\n{canary_and_shadow}"
    )


def both_to(pool: str, shadow: str) -> str:
    """A canary that goes where its rule goes, and a shadow that goes elsewhere."""
    return (
        f"    canary: {{share: 0.5, salt: a, route: {{only: ['pool:{pool}']}}}}\n"
        f"    shadow: {{route: {{only: ['pool:{shadow}']}}}}\n"
    )


def example_for(tenant: Tenant) -> str:
    given = f"{{tenant.project: {tenant.project}}}"
    return f"{TESTS}  - {{name: of the project, input: {given}, expect: {{rule: one-project}}}}\n"


def served(stack: Stack, tenant: Tenant) -> tuple[str, str, str]:
    """The id, the pool and the rule of one call."""
    rid = ask(stack, tenant)
    told = stack.generation(rid)
    return rid, told["pool"], told["rule"]


def activate(page: Page, why: str) -> None:
    page.get_by_label("Why").fill(why)
    page.get_by_role("button", name="Activate").click()
    page.wait_for_url("**/console/policies")
    expect(page.get_by_role("region", name="Gateways")).not_to_contain_text("not the active one")


def try_it(page: Page, call: str = "", **fields: str) -> None:
    """In the editor, with the document that stands there: a recent call, or a body."""
    page.get_by_label("A recent call").select_option(call)
    for label, value in fields.items():
        page.get_by_label(label.capitalize()).fill(value)
    page.get_by_role("button", name="Try it").click()
    expect(page.locator(".asked .taken")).to_contain_text("one-project")


def count_of(stack: Stack, version: int) -> Callable[[], bool]:
    """Whether canary and shadow of a version have a call."""

    def look() -> bool:
        told = stack.admin("GET", f"/policies/{version}/outcomes")
        (canary,), (shadow,) = told["canaries"], told["shadows"]
        return bool(canary["canary"]["calls"] + canary["stable"]["calls"] and shadow["differ"])

    return look


def test_rule_goes_from_a_mistake_to_real_calls_and_back(
    stack: Stack, tenant: Tenant, visit: Open
) -> None:
    recent, usual, _ = served(stack, tenant)
    other = OTHER[usual]
    visitor = visit()
    page = visitor.sign_in()
    page.get_by_role("link", name="Routing policy").click()
    page.get_by_role("link", name="Edit version").click()
    document = page.get_by_label("Document")
    text = document.input_value()
    wrong = rule_for(tenant, other, "tenant.projct")
    document.fill(text.replace(RULES, wrong).replace(TESTS, example_for(tenant)))
    expect(page.locator("#findings")).to_contain_text("unknown attribute or function")
    expect(page.locator("#marks mark")).to_have_text("tenant.projct")
    visitor.look_over("policy-mistake")
    page.locator("#findings a").first.click()
    expect(document).to_be_focused()
    right = rule_for(tenant, other, canary_and_shadow=both_to(other, usual))
    document.fill(text.replace(RULES, right).replace(TESTS, example_for(tenant)))
    expect(page.locator("#verdict")).to_contain_text("valid")
    expect(page.get_by_role("row", name="of the project")).to_contain_text("passed")
    expect(page.locator(".changes .added").first).to_contain_text("one-project")

    try_it(page, key=tenant.key, body=json.dumps(body()))
    chosen = page.locator("#tried tr", has_text="chosen")
    expect(chosen).to_contain_text(other)
    try_it(page, recent)
    expect(chosen).to_contain_text(other)
    expect(page.locator("#tried")).to_contain_text(tenant.project)
    visitor.look_over("policy-trial")

    page.get_by_label("Comment").fill("One project goes elsewhere")
    page.get_by_role("button", name="Store as a draft").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("draft")
    version = int(page.url.rpartition("/")[2])
    visitor.look_over("policy-draft")
    activate(page, "To see it go there")
    visitor.look_over("policies")

    rid, pool, rule = served(stack, tenant)
    assert (pool, rule) == (other, "one-project")
    page.goto(f"/console/calls/{rid}")
    expect(page.locator("table.candidates tr.served")).to_contain_text(other)
    visitor.look_over("call")
    stack.wait_until(count_of(stack, version), 60.0, "canary and shadow to have a call")
    page.goto(f"/console/policies/{version}")
    page.get_by_label("Look back").select_option("24")
    page.get_by_role("button", name="Count").click()
    page.wait_for_url("**hours=24**")
    outcomes = page.locator("#outcomes")
    expect(outcomes.get_by_role("row", name="Canary")).to_be_visible()
    expect(outcomes.locator(f'a[href="/console/calls/{rid}"]')).to_be_visible()
    visitor.look_over("policy-outcomes")

    page.get_by_role("link", name="Routing policy").first.click()
    page.get_by_label("Why").fill("It was seen")
    page.get_by_role("button", name="Roll back").click()
    expect(page.get_by_text("It was seen").first).to_be_visible()
    expect(page.get_by_role("region", name="Gateways")).not_to_contain_text("not the active one")
    assert served(stack, tenant)[2] != "one-project"


def test_editor_works_without_scripts_on_a_phone(stack: Stack, tenant: Tenant, visit: Open) -> None:
    visitor = visit(width=390, height=844, scheme="dark", scripts=False)
    page = visitor.sign_in()
    page.goto("/console/policies/edit")
    document = page.get_by_label("Document")
    text = document.input_value()
    document.fill(text.replace(RULES, rule_for(tenant, "small-spto")))
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#findings")).to_contain_text("did you mean 'small-spot'?")
    expect(page.locator("#marks mark")).to_contain_text("small-spto")
    assert document.input_value() != text, "what was written stays"
    visitor.shoot("phone-policy-mistake-dark")
    document.fill(text.replace(RULES, rule_for(tenant, "small-spot")))
    page.get_by_role("button", name="Store as a draft").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("draft")
    visitor.shoot("phone-policy-draft-dark")
