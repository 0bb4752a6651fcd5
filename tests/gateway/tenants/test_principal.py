"""Rows of a key and its scopes become one principal: the narrowest leave counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.limits.tables import Limits, OutageRow
from gateway.tenants.auth import OutageMode, OutageRule
from gateway.tenants.entitlement import EntitlementFields, entitlement_of, leave_of
from gateway.tenants.principal import principal_of
from gateway.tenants.store import KnownKey
from gateway.tenants.tables import ApiKey, Entitlement, Organization
from routing.types import CapacityClass, Tier

ORGANIZATION = Organization(id="org_1", name="o", slug="o", created_us=0)
KEY = ApiKey(id="key_1", project_id="proj_1", org_id="org_1", name="k", prefix="", created_us=0)
SCOPES = ("key:key_1", "project:proj_1", "org:org_1")

lists_of_models = st.one_of(st.none(), st.lists(st.sampled_from("abc"), unique=True))


def known(*entitlements: Entitlement, **changes: object) -> KnownKey:
    values: dict[str, object] = {
        "organization": ORGANIZATION,
        "expires_us": None,
        "is_active": True,
        "limits": {},
    } | changes
    return KnownKey(
        key=KEY,
        entitlements={row.scope: row for row in entitlements},
        **values,  # type: ignore[arg-type]
    )


@given(st.tuples(lists_of_models, lists_of_models, lists_of_models))
def test_a_model_may_be_used_where_every_scope_that_says_anything_allows_it(
    lists: tuple[list[str] | None, ...],
) -> None:
    rows = [Entitlement(scope=s, models=m) for s, m in zip(SCOPES, lists, strict=True)]
    leave = principal_of(known(*rows)).leave
    for model in "abcd":
        assert leave.may_use(model) == all(m is None or model in m for m in lists)


lists_of_names = st.none() | st.lists(st.sampled_from(["a", "b", "c"]), unique=True)
entitlements = st.builds(
    EntitlementFields,
    models=lists_of_names,
    regions=lists_of_names,
    pools=lists_of_names,
    data_collection=st.sampled_from([None, "allow", "deny"]),
)


@given(st.tuples(entitlements, entitlements, entitlements))
def test_no_scope_widens_what_another_one_restricts(three: tuple[EntitlementFields, ...]) -> None:
    rows = [Entitlement(scope=s, **of.model_dump()) for s, of in zip(SCOPES, three, strict=True)]
    leave = principal_of(known(*rows)).leave
    for name in ("models", "regions", "pools"):
        allowed = getattr(leave, name)
        for row in rows:
            mine = getattr(row, name)
            assert mine is None or (allowed is not None and allowed <= {*mine}), name
    assert leave.data_collection_allowed == all(row.data_collection != "deny" for row in rows)
    assert leave_of([entitlement_of(leave)]) == leave, "the tenant is told what holds"


def test_tiers_and_capacity_become_words_of_routing() -> None:
    leave = principal_of(
        known(Entitlement(scope="org:org_1", tiers=["flex"], capacity_classes=["spot"]))
    ).leave
    assert (leave.tiers, leave.capacity_classes) == ({Tier.FLEX}, {CapacityClass.SPOT})
    assert leave.may_use("anything")


@pytest.mark.parametrize("expires_us, expires_s", [(None, None), (1_500_000, 1.5)])
def test_limits_stand_in_the_order_key_project_organization(
    expires_us: int | None, expires_s: float | None
) -> None:
    limits = {"org:org_1": Limits(scope="org:org_1", concurrency=4)}
    principal = principal_of(known(limits=limits, expires_us=expires_us))
    assert [scope.scope for scope in principal.scopes] == list(SCOPES)
    assert [scope.concurrency for scope in principal.scopes] == [None, None, 4]
    assert principal.expires_s == expires_s


@pytest.mark.parametrize(
    ("mode", "limit", "may_owe"),
    [("postpaid", None, None), ("postpaid", 7, 7), ("prepaid", None, 0), ("prepaid", 7, 7)],
)
def test_what_an_organization_may_owe_is_its_limit_and_nothing_where_it_pays_before(
    mode: str, limit: int | None, may_owe: int | None
) -> None:
    terms = {"settlement_mode": mode, "credit_limit_nanousd": limit}
    organization = Organization(id="org_1", name="o", slug="o", created_us=0, **terms)
    principal = principal_of(known(organization=organization))
    assert principal.may_owe_nanousd == may_owe
    expected = OutageMode.LOCAL if may_owe is None else OutageMode.DENY
    assert principal.outage.mode is expected, "money that must not be overspent is not risked"
    declared = OutageRow(org_id="org_1", mode="local", cap_nanousd=5)
    principal = principal_of(known(organization=organization, outage=declared))
    assert principal.outage == OutageRule(OutageMode.LOCAL, 5)
