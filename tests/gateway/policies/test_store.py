"""Versions are numbered one after another, never change, and come into force one at a time."""

from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import pairwise
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from gateway.policies.shipped import AUTHOR, follow_shipped, shipped_document
from gateway.policies.tables import PolicyActivation
from gateway.tenants.store import Conflict, TenantStore
from gateway.tenants.tables import Audit
from gateway.versions.store import VersionStatus, version_before
from tests.gateway.policies.stored import activated, added, document, store_of


def test_versions_are_numbered_and_have_one_status_each(either: TenantStore) -> None:
    store = store_of(either)
    assert [added(either, document(rule)) for rule in "abc"] == [1, 2, 3]
    activated(either, 1, expects=None)
    activated(either, 3)
    page = store.page(None, 10)
    assert [(each.row.version, each.status) for each in page] == [
        (3, VersionStatus.ACTIVE),
        (2, VersionStatus.DRAFT),
        (1, VersionStatus.RETIRED),
    ]
    assert [each.row.version for each in store.page(3, 1)] == [2]
    stored = store.version(3)
    assert stored is not None and stored.row.sha256 == sha256(document("c").encode()).hexdigest()
    assert stored.activation is not None and stored.activation.comment == "because"
    assert store.version(4) is None


@pytest.mark.parametrize("table", ["policy_version", "policy_activation"])
@pytest.mark.parametrize("change", ["UPDATE {} SET comment = 'x'", "DELETE FROM {}"])
def test_what_is_stored_never_changes(either: TenantStore, table: str, change: str) -> None:
    activated(either, added(either, document()), expects=None)
    with pytest.raises(IntegrityError, match="may not change"), either._store.write() as conn:
        conn.execute(text(change.format(table)))


def test_of_two_activations_at_once_one_wins(either: TenantStore) -> None:
    first, second, third = [added(either, document(rule)) for rule in "abc"]
    activated(either, first, expects=None)

    def attempt(version: int) -> bool:
        try:
            activated(either, version, expects=first)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(attempt, (second, third))) == [False, True]
    with pytest.raises(Conflict, match="is active already"):
        activated(either, (store_of(either).active() or fail()).version)


def test_versions_that_are_sent_at_once_all_get_a_number(either: TenantStore) -> None:
    with ThreadPoolExecutor(4) as pool:
        versions = list(pool.map(lambda n: added(either, document(f"r{n}")), range(8)))
    assert sorted(versions) == list(range(1, 9))


def test_a_fresh_database_has_the_shipped_policy_once(either: TenantStore) -> None:
    store = store_of(either)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda now_us: follow_shipped(either, store, now_us), range(3)))
    [stored] = store.page(None, 10)
    assert (stored.row.version, stored.status, stored.row.author) == (1, "active", AUTHOR)
    assert (store.version(1) or fail()).row.document == shipped_document()
    assert [row.object for row in either.every(Audit)] == ["1"]


def test_a_newer_shipped_policy_follows_until_an_administrator_activates_one(
    either: TenantStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(either)
    follow_shipped(either, store, 1)
    monkeypatch.setattr("gateway.policies.shipped.shipped_document", document)
    follow_shipped(either, store, 2)
    assert (store.active() or fail()).version == 2
    activated(either, 1)
    follow_shipped(either, store, 3)
    assert (store.active() or fail()).version == 1 and len(store.page(None, 10)) == 2


def activation(number: int, version: int, is_rollback: bool = False) -> PolicyActivation:
    return PolicyActivation(
        number=number, version=version, is_rollback=is_rollback, comment="", author="", at_us=0
    )


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8))
def test_rollbacks_walk_back_through_what_was_in_force(versions: list[int]) -> None:
    history = [activation(number, version) for number, version in enumerate(versions)]
    walked = [versions[-1]]
    while (before := version_before(history)) is not None:
        history.append(activation(len(history), before, is_rollback=True))
        walked.append(before)
        assert len(walked) <= len(versions)
    assert walked[-1] == versions[0] or len(set(versions)) < len(versions)
    assert all(one != other for one, other in pairwise(walked))


def test_a_rollback_goes_to_what_was_in_force_before() -> None:
    history = [activation(n, version) for n, version in enumerate((1, 2, 3))]
    assert version_before(history) == 2
    history.append(activation(3, 2, is_rollback=True))
    assert version_before(history) == 1
    assert version_before(history[:1]) is None


def fail() -> NoReturn:
    raise AssertionError("nothing is there")
