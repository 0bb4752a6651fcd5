"""Tenants in SQL: who may call, and a revision that no change forgets to raise."""

from __future__ import annotations

from random import Random

import pytest
from sqlmodel import Session

from gateway.admin.keys.service import KeyService
from gateway.admin.limits.service import LimitService
from gateway.admin.organizations.service import OrganizationService
from gateway.admin.use_cases import AdminStore
from gateway.errors import ApiError
from gateway.tenants.ids import id_maker, key_digest
from gateway.tenants.store import Conflict, TenantStore
from gateway.tenants.tables import Audit, Organization, Project

NOW_S = 1.79e9


class Administrator:
    def __init__(self, tenants: TenantStore) -> None:
        rng = Random(1)
        new_id = id_maker(lambda: NOW_S, rng)
        admin = AdminStore(tenants, lambda: NOW_S, forget=lambda: None)
        self.store = tenants
        self.organizations = OrganizationService(admin, new_id)
        self.keys = KeyService(admin, new_id, rng.randbytes)
        self.limits = LimitService(admin)

    async def project(self) -> Project:
        organization = await self.organizations.create("Acme", "acme")
        return await self.organizations.create_project(organization.id, "p")


@pytest.fixture
def admin(tenants: TenantStore) -> Administrator:
    return Administrator(tenants)


async def test_every_change_raises_the_revision_by_one_and_is_audited(admin: Administrator) -> None:
    store = admin.store
    project = await admin.project()
    key, _ = await admin.keys.create(project.id, "k", None)
    await admin.limits.set(f"key:{key.id}", {"concurrency": 3})
    await admin.keys.revoke(key.id)
    assert store.revision() == 5
    assert len(store.every(Audit)) == 5


async def test_change_that_fails_leaves_nothing_behind(admin: Administrator) -> None:
    await admin.organizations.create("Acme", "acme")
    before = admin.store.revision(), len(admin.store.every(Audit))
    with pytest.raises(ApiError, match="the slug 'acme' is taken"):
        await admin.organizations.create("Other", "acme")
    with pytest.raises(ApiError, match="no 'org_nowhere'"):
        await admin.organizations.create_project("org_nowhere", "p")
    assert (admin.store.revision(), len(admin.store.every(Audit))) == before


async def test_key_is_found_by_its_digest_with_the_limits_of_its_three_scopes(
    admin: Administrator,
) -> None:
    project = await admin.project()
    key, secret = await admin.keys.create(project.id, "k", None)
    for scope in (f"key:{key.id}", f"project:{project.id}", f"org:{project.org_id}"):
        await admin.limits.set(scope, {"concurrency": 3})
    found = admin.store.key_by_hash(key_digest(secret))
    assert found is not None
    assert (found.key.id, len(found.limits)) == (key.id, 3)
    _, digests = admin.store.secrets_since(0)
    assert digests == {key_digest(secret)}


async def test_revoked_key_is_not_found_and_that_of_a_frozen_tenant_is_not_active(
    admin: Administrator,
) -> None:
    project = await admin.project()
    key, secret = await admin.keys.create(project.id, "k", None)
    await admin.organizations.change(project.org_id, {"status": "frozen"})
    found = admin.store.key_by_hash(key_digest(secret))
    assert found is not None and not found.is_active
    await admin.keys.revoke(key.id)
    assert admin.store.key_by_hash(key_digest(secret)) is None


async def test_rotated_key_has_two_secrets_until_the_overlap_ends(admin: Administrator) -> None:
    project = await admin.project()
    key, old = await admin.keys.create(project.id, "k", None)
    await admin.limits.set(f"key:{key.id}", {"concurrency": 3})
    rotated, new = await admin.keys.rotate(key.id, overlap_s=60.0)
    before, after = (admin.store.key_by_hash(key_digest(secret)) for secret in (old, new))
    assert before is not None and after is not None
    assert rotated.id == before.key.id == after.key.id == key.id
    assert (before.expires_us, after.expires_us) == (round(1.79e15) + 60_000_000, None)
    assert after.limits[f"key:{key.id}"].concurrency == 3
    await admin.keys.rotate(key.id, overlap_s=3600.0)
    again = admin.store.key_by_hash(key_digest(old))
    assert again is not None and again.expires_us == before.expires_us, "never put off"


async def test_secret_lives_no_longer_than_its_key(admin: Administrator) -> None:
    project = await admin.project()
    ends_us = round(NOW_S * 1e6) + 5
    key, old = await admin.keys.create(project.id, "k", ends_us)
    await admin.keys.rotate(key.id, overlap_s=60.0)
    found = admin.store.key_by_hash(key_digest(old))
    assert found is not None and found.expires_us == ends_us


async def test_revoked_key_is_not_rotated(admin: Administrator) -> None:
    project = await admin.project()
    key, _ = await admin.keys.create(project.id, "k", None)
    await admin.keys.revoke(key.id)
    with pytest.raises(ApiError, match=f"no '{key.id}'"):
        await admin.keys.rotate(key.id, overlap_s=0.0)


async def test_revoking_twice_keeps_the_first_time(admin: Administrator) -> None:
    project = await admin.project()
    key, _ = await admin.keys.create(project.id, "k", None)
    first = (await admin.keys.revoke(key.id)).revoked_us
    assert (await admin.keys.revoke(key.id)).revoked_us == first


async def test_organization_of_a_scope_is_found_by_key_project_and_itself(
    admin: Administrator,
) -> None:
    project = await admin.project()
    key, _ = await admin.keys.create(project.id, "k", None)
    for scope in (f"key:{key.id}", f"project:{project.id}", f"org:{project.org_id}"):
        assert admin.store.organization_of(scope) == project.org_id
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
