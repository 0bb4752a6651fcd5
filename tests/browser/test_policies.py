"""An operator's way with the routing policy: a rule is written, refused, mended, tested, activated,
followed by a real call, and taken back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.browser.axe import serious
from tests.browser.conftest import Open
from tests.browser.test_console import ask
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


def rule_for(tenant: Tenant, pool: str, attribute: str = "tenant.project") -> str:
    return (
        f"{RULES}  - id: one-project\n"
        f"    when: ['{attribute} == \"{tenant.project}\"']\n"
        f"    route: {{only: ['pool:{pool}']}}\n"
    )


def example_for(tenant: Tenant) -> str:
    given = f"{{tenant.project: {tenant.project}}}"
    return f"{TESTS}  - {{name: of the project, input: {given}, expect: {{rule: one-project}}}}\n"


def served(stack: Stack, tenant: Tenant) -> tuple[str, str]:
    """The pool and the rule of one call."""
    told = stack.generation(ask(stack, tenant))
    return told["pool"], told["rule"]


def activate(page: Page, why: str) -> None:
    page.get_by_label("Why").fill(why)
    page.get_by_role("button", name="Activate").click()
    page.wait_for_url("**/console/policies")
    expect(page.get_by_role("region", name="Gateways")).not_to_contain_text("not the active one")


def test_rule_goes_from_a_mistake_to_real_calls_and_back(
    stack: Stack, tenant: Tenant, visit: Open
) -> None:
    usual, _ = served(stack, tenant)
    other = OTHER[usual]
    visitor = visit(width=1280)
    page = visitor.sign_in()
    page.get_by_role("link", name="Routing policy").click()
    page.get_by_role("link", name="Edit version").click()
    document = page.get_by_label("Document")
    text = document.input_value()
    wrong = rule_for(tenant, other, "tenant.projct")
    document.fill(text.replace(RULES, wrong).replace(TESTS, example_for(tenant)))
    expect(page.locator("#findings")).to_contain_text("unknown attribute or function")
    expect(page.locator("#marks mark")).to_have_text("tenant.projct")
    assert serious(page) == []
    visitor.shoot("policy-mistake-light")
    page.locator("#findings a").first.click()
    expect(document).to_be_focused()
    document.fill(text.replace(RULES, rule_for(tenant, other)).replace(TESTS, example_for(tenant)))
    expect(page.locator("#verdict")).to_contain_text("valid")
    expect(page.get_by_role("row", name="of the project")).to_contain_text("passed")
    expect(page.locator(".changes .added").first).to_contain_text("one-project")
    page.get_by_label("Comment").fill("One project goes elsewhere")
    page.get_by_role("button", name="Store as a draft").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("draft")
    visitor.shoot("policy-draft-light")
    activate(page, "To see it go there")
    assert serious(page) == []
    visitor.shoot("policy-active-light")
    assert served(stack, tenant) == (other, "one-project")
    page.get_by_label("Why").fill("It was seen")
    page.get_by_role("button", name="Roll back").click()
    expect(page.get_by_text("It was seen").first).to_be_visible()
    expect(page.get_by_role("region", name="Gateways")).not_to_contain_text("not the active one")
    assert served(stack, tenant)[1] != "one-project"


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
