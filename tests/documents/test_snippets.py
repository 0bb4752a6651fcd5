"""Every snippet says what it is; what is not run says why, and is counted."""

from __future__ import annotations

from tests.documents.snippets import LANGUAGES, RUN, Snippet, pages, snippets

NOT_RUN = {
    "README.md": 2,
    "docs/concepts/fleet.md": 1,
    "docs/concepts/money.md": 17,
    "docs/docker.md": 2,
    "docs/engines.md": 1,
    "docs/failures.md": 2,
    "docs/fleet.md": 10,
    "docs/guides/documents.md": 3,
    "docs/guides/first-tenant.md": 1,
    "docs/guides/backup.md": 4,
    "docs/guides/litellm.md": 2,
    "docs/guides/postgres.md": 3,
    "docs/guides/prices.md": 1,
    "docs/guides/variants.md": 1,
    "docs/guides/webhooks.md": 5,
    "docs/images.md": 2,
    "docs/index.md": 1,
    "docs/kubernetes.md": 4,
    "docs/models.md": 6,
    "docs/operations.md": 2,
    "docs/providers.md": 9,
    "docs/audio.md": 4,
    "docs/rerank.md": 1,
}
"""How many snippets of a page are not run; each says why in the page's source."""


def test_every_snippet_says_its_language_and_what_is_not_run_is_counted() -> None:
    found: dict[str, list[Snippet]] = {page: snippets(page) for page in pages()}
    for page, each in found.items():
        for snippet in each:
            assert snippet.language in LANGUAGES, f"{snippet.where}: say sh, python, toml, ..."
            assert snippet.not_run is None or len(snippet.not_run.split()) >= 3, snippet.where
        left = sum(snippet.not_run is not None for snippet in each)
        assert left == NOT_RUN.get(page, 0), page
    ran = [s for each in found.values() for s in each if s.not_run is None and s.language in RUN]
    assert len(ran) >= 5
