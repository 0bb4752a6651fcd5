"""Each policy of the guide is valid, passes its own tests, and every word of a route is told of."""

import re

import pytest

from gateway.policies.document import examine
from gateway.policies.names import CatalogueNames
from gateway.policies.words import RouteWords
from tests.documents.snippets import ROOT, Snippet, snippets

PAGE = "docs/policies.md"
DOCUMENTS = [each for each in snippets(PAGE) if each.language == "yaml"]
KNOWN = CatalogueNames(
    pools=frozenset({"small-reserved", "small-spot", "large-reserved", "large-spot"}),
    providers=frozenset({"openrouter"}),
    models=frozenset({"sluice-small", "large"}),
)


def test_the_guide_has_ten_policies_beside_the_first() -> None:
    assert len(DOCUMENTS) >= 11
    assert len({each.title for each in DOCUMENTS}) == len(DOCUMENTS)


@pytest.mark.parametrize("snippet", DOCUMENTS, ids=lambda each: each.title)
def test_a_policy_of_the_guide_is_valid_and_each_of_its_rules_is_tested(snippet: Snippet) -> None:
    examined = examine(snippet.text, known=KNOWN)
    assert examined.mistakes == examined.warnings == ()
    assert examined.policy is not None and examined.tests
    tested = {each.rule for each in examined.tests}
    assert tested >= {rule.id for rule in examined.policy.rules}


def test_every_word_of_a_route_is_in_the_guide() -> None:
    named = set(re.findall(r"`(\w+)`", (ROOT / PAGE).read_text()))
    assert set(RouteWords.model_fields) <= named
