"""Tenants in SQL: who may call, and a revision that no change forgets to raise."""

from __future__ import annotations

from random import Random

import pytest
from sqlmodel import Session

from gateway.admin.tenants import NotThere, Tenants
from gateway.identity import id_maker, key_digest
from gateway.store import Conflict, TenantStore
from gateway.tables import Audit, Organization


@pytest.fixture
def admin(tenants: TenantStore) -> Tenants:
    rng = Random(1)
    return Tenants(tenants, id_maker(lambda: 1.79e9, rng), rng.randbytes, lambda: 1.79e9)


def test_every_change_raises_the_revision_by_one_and_is_audited(admin: Tenants) -> None:
    store = admin.store
    organization = admin.create_organization("Acme", "acme")
    project = admin.create_project(organization.id, "p")
    key, _ = admin.create_key(project.id, "k", None)
    admin.set_limits(f"key:{key.id}", {"concurrency": 3})
    admin.revoke_key(key.id)
    assert store.revision() == 5
    assert len(store.every(Audit)) == 5


def test_change_that_fails_leaves_nothing_behind(admin: Tenants) -> None:
    admin.create_organization("Acme", "acme")
    before = admin.store.revision(), len(admin.store.every(Audit))
    with pytest.raises(Conflict):
        admin.create_organization("Other", "acme")
    with pytest.raises(NotThere):
        admin.create_project("org_nowhere", "p")
    assert (admin.store.revision(), len(admin.store.every(Audit))) == before


def test_key_is_found_by_its_digest_with_the_limits_of_its_three_scopes(admin: Tenants) -> None:
    organization = admin.create_organization("Acme", "acme")
    project = admin.create_project(organization.id, "p")
    key, secret = admin.create_key(project.id, "k", None)
    for scope in (f"key:{key.id}", f"project:{project.id}", f"org:{organization.id}"):
        admin.set_limits(scope, {"concurrency": 3})
    found = admin.store.key_by_hash(key_digest(secret))
    assert found is not None
    assert (found.key.id, len(found.limits)) == (key.id, 3)
    _, digests = admin.store.secrets_since(0)
    assert digests == {key_digest(secret)}


def test_revoked_key_is_not_found_and_that_of_a_frozen_tenant_is_not_active(
    admin: Tenants,
) -> None:
    organization = admin.create_organization("Acme", "acme")
    key, secret = admin.create_key(admin.create_project(organization.id, "p").id, "k", None)
    admin.change_organization(organization.id, {"status": "frozen"})
    found = admin.store.key_by_hash(key_digest(secret))
    assert found is not None and not found.is_active
    admin.revoke_key(key.id)
    assert admin.store.key_by_hash(key_digest(secret)) is None


def test_rotated_key_has_two_secrets_until_the_overlap_ends(admin: Tenants) -> None:
    organization = admin.create_organization("Acme", "acme")
    key, old = admin.create_key(admin.create_project(organization.id, "p").id, "k", None)
    admin.set_limits(f"key:{key.id}", {"concurrency": 3})
    rotated, new = admin.rotate_key(key.id, overlap_s=60.0)
    before, after = (admin.store.key_by_hash(key_digest(secret)) for secret in (old, new))
    assert before is not None and after is not None
    assert rotated.id == before.key.id == after.key.id == key.id
    assert (before.expires_us, after.expires_us) == (round(1.79e15) + 60_000_000, None)
    assert after.limits[f"key:{key.id}"].concurrency == 3
    admin.rotate_key(key.id, overlap_s=3600.0)
    again = admin.store.key_by_hash(key_digest(old))
    assert again is not None and again.expires_us == before.expires_us, "never put off"


def test_secret_lives_no_longer_than_its_key(admin: Tenants) -> None:
    project = admin.create_project(admin.create_organization("Acme", "acme").id, "p")
    key, old = admin.create_key(project.id, "k", expires_us=5)
    admin.rotate_key(key.id, overlap_s=60.0)
    found = admin.store.key_by_hash(key_digest(old))
    assert found is not None and found.expires_us == 5


def test_revoked_key_is_not_rotated(admin: Tenants) -> None:
    project = admin.create_project(admin.create_organization("Acme", "acme").id, "p")
    key, _ = admin.create_key(project.id, "k", None)
    admin.revoke_key(key.id)
    with pytest.raises(NotThere):
        admin.rotate_key(key.id, overlap_s=0.0)


def test_revoking_twice_keeps_the_first_time(admin: Tenants) -> None:
    organization = admin.create_organization("Acme", "acme")
    key, _ = admin.create_key(admin.create_project(organization.id, "p").id, "k", None)
    first = admin.revoke_key(key.id).revoked_us
    assert admin.revoke_key(key.id).revoked_us == first


def test_organization_of_a_scope_is_found_by_key_project_and_itself(admin: Tenants) -> None:
    organization = admin.create_organization("Acme", "acme")
    project = admin.create_project(organization.id, "p")
    key, _ = admin.create_key(project.id, "k", None)
    for scope in (f"key:{key.id}", f"project:{project.id}", f"org:{organization.id}"):
        assert admin.store.organization_of(scope) == organization.id
    assert admin.store.organization_of("key:nowhere") == ""


def test_work_that_raises_is_rolled_back_whole(tenants: TenantStore) -> None:
    def work(session: Session) -> Organization:
        session.add(Organization(id="org_x", name="x", slug="x", created_us=1))
        session.flush()
        raise Conflict("no")

    with pytest.raises(Conflict):
        tenants.change(Audit(at_us=1, actor="t", action="t", object="t"), work)
    assert tenants.one(Organization, "org_x") is None
    assert tenants.revision() == 0
