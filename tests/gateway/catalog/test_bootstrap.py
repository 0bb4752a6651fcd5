"""A data folder follows its settings file, and keeps what an administrator did to it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from billing.db.engine import open_store
from gateway.catalog.bootstrap import KEY_ID, bootstrap
from gateway.catalog.hardware import HardwareSettings
from gateway.catalog.tables import HardwareRow, ModelRow, PoolRow
from gateway.config_file import SettingsError
from gateway.errors import ApiError
from gateway.limits.tables import Limits
from gateway.providers.tables import ProviderPriceListRow, ProviderRow
from gateway.settings import BootstrapSettings, ModelSettings, PoolSettings, Settings
from gateway.tenants.ids import key_digest
from gateway.tenants.store import TenantStore
from gateway.tenants.tables import ApiKey, Audit
from migrations.run import migrate
from tests.gateway.catalog.served import Served
from tests.postgres_fixtures import Databases, postgres

__all__ = ["postgres"]

NOW_US = 1_790_000_000_000_000


def model(name: str = "tale", **changes: Any) -> ModelSettings:
    values = {"context_tokens": 512, "max_output_tokens": 256, "size_rank": 1, "quality": 0.5}
    return ModelSettings(name=name, **(values | changes))


def pool(name: str = "tale-reserved", **changes: Any) -> PoolSettings:
    return PoolSettings(name=name, **({"model": "tale"} | changes))


def settings(*pools: PoolSettings, **changes: Any) -> Settings:
    values: dict[str, Any] = {"api_key": "sk-sluice-first", "models": (model(),), "pools": pools}
    return Settings(**(values | changes))


def pools_of(store: TenantStore) -> dict[str, PoolRow]:
    return {row.name: row for row in store.catalog().pools}


def test_first_start_makes_tenant_key_limits_models_and_pools(tenants: TenantStore) -> None:
    wanted = BootstrapSettings(requests_per_minute=60)
    bootstrap(tenants, settings(pool(), bootstrap=wanted), NOW_US)
    found = tenants.key_by_hash(key_digest("sk-sluice-first"))
    assert found is not None
    assert (found.key.id, found.key.is_bootstrap) == (KEY_ID, True)
    limits = {scope: row.requests_per_minute for scope, row in found.limits.items()}
    assert limits == {f"key:{KEY_ID}": 60}
    assert list(pools_of(tenants)) == ["tale-reserved"]


def test_second_start_writes_nothing(tenants: TenantStore) -> None:
    bootstrap(tenants, settings(pool()), NOW_US)
    before = tenants.revision()
    bootstrap(tenants, settings(pool()), NOW_US + 1)
    assert tenants.revision() == before
    assert len(tenants.every(Audit)) == 3


def test_pools_of_the_file_follow_it(tenants: TenantStore) -> None:
    bootstrap(tenants, settings(pool(max_replicas=1), pool("gone")), NOW_US)
    bootstrap(tenants, settings(pool(max_replicas=5), pool("new")), NOW_US)
    found = pools_of(tenants)
    assert set(found) == {"tale-reserved", "new"}
    assert found["tale-reserved"].max_replicas == 5
    bootstrap(tenants, settings(pool("gone")), NOW_US)
    assert set(pools_of(tenants)) == {"gone"}


OURS = {
    **{
        "title": "NVIDIA L40S, our rack",
        "kind": "gpu",
        "memory_gb": 96.0,
        "reference": "an invoice",
    },
    **{"tflops": {"bf16": 362.0}, "prices": [{"offer": "bare_metal", "usd_h": 0.9}]},
}


def hardware(name: str = "our-l40s", **changes: Any) -> HardwareSettings:
    return HardwareSettings(name=name, **(OURS | changes))


def hardware_of(store: TenantStore) -> dict[str, HardwareRow]:
    return {row.name: row for row in store.catalog().hardware}


def test_hardware_of_the_file_follows_it(tenants: TenantStore) -> None:
    on_ours = pool(hardware="our-l40s")
    bootstrap(tenants, settings(on_ours, hardware=(hardware(), hardware("gone"))), NOW_US)
    before = tenants.revision()
    bootstrap(tenants, settings(on_ours, hardware=(hardware(), hardware("gone"))), NOW_US + 1)
    assert tenants.revision() == before
    grown = settings(on_ours, hardware=(hardware(memory_gb=192.0), hardware("new")))
    bootstrap(tenants, grown, NOW_US)
    found = hardware_of(tenants)
    assert set(found) == {"our-l40s", "new"}
    assert (found["our-l40s"].memory_gb, found["our-l40s"].source) == (192.0, "file")
    bootstrap(tenants, settings(hardware=(hardware("gone"),)), NOW_US)
    assert set(hardware_of(tenants)) == {"gone"}


async def test_hardware_of_an_administrator_is_left_alone(tenants: TenantStore) -> None:
    bootstrap(tenants, settings(hardware=(hardware(), hardware("theirs"))), NOW_US)
    await serving(tenants).put_hardware("mine", OURS)
    await serving(tenants).put_hardware("theirs", OURS | {"memory_gb": 24.0})
    await serving(tenants).disable_hardware("our-l40s")
    bootstrap(tenants, settings(hardware=(hardware(), hardware("theirs"))), NOW_US)
    found = hardware_of(tenants)
    assert {name: row.memory_gb for name, row in found.items()} == {"mine": 96.0, "theirs": 24.0}


def serving(store: TenantStore) -> Served:
    return Served(store, lambda: NOW_US / 1e6)


FIELDS = {"model": "tale", "variant": "fp16", "capacity_class": "spot"}


async def test_pool_of_an_administrator_is_left_alone(tenants: TenantStore) -> None:
    bootstrap(tenants, settings(pool()), NOW_US)
    await serving(tenants).put_pool("mine", FIELDS)
    bootstrap(tenants, settings(pool(max_replicas=2)), NOW_US)
    assert set(pools_of(tenants)) == {"tale-reserved", "mine"}


async def test_what_an_administrator_changed_in_a_pool_of_the_file_stays(
    tenants: TenantStore,
) -> None:
    bootstrap(tenants, settings(pool()), NOW_US)
    await serving(tenants).put_pool("tale-reserved", FIELDS)
    bootstrap(tenants, settings(pool()), NOW_US)
    assert pools_of(tenants)["tale-reserved"].capacity_class == "spot"


async def test_pool_that_an_administrator_disabled_stays_disabled(tenants: TenantStore) -> None:
    bootstrap(tenants, settings(pool()), NOW_US)
    await serving(tenants).disable_pool("tale-reserved")
    await serving(tenants).disable_model("tale")
    bootstrap(tenants, settings(pool()), NOW_US)
    assert pools_of(tenants) == {}
    assert [row.enabled for row in tenants.every(ModelRow)] == [False]


def far(name: str = "far", **changes: Any) -> PoolSettings:
    outside = {"capacity_class": "external", "base_url": "http://h/v1", "upstream_model": "big"}
    return pool(name, provider="acme", **(outside | changes))


def test_a_pool_of_an_account_without_an_approved_price_is_refused_by_name(
    tenants: TenantStore,
) -> None:
    bootstrap(tenants, settings(far()), NOW_US)
    audit = Audit(at_us=NOW_US, actor="admin", action="provider.put", object="acme")
    tenants.change(audit, lambda session: session.merge(ProviderRow(name="acme")))
    bootstrap(tenants, settings(far()), NOW_US)
    for wanted in (settings(far(region="eu")), settings(far(), far("new"))):
        with pytest.raises(SettingsError, match=r"\[\[pools\]\] (far|new): .* approved price"):
            bootstrap(tenants, wanted, NOW_US)
        (left,) = pools_of(tenants).values()
        assert (left.name, left.region) == ("far", None), "what is there already stays as it is"
    bootstrap(tenants, settings(far(), far("new", cost_input_usd_per_mtok="1")), NOW_US)
    rate = {"model": "big", "input_nanousd_per_mtok": 1, "output_nanousd_per_mtok": 1}
    once, by = {"created_us": 1, "approved_us": 1}, {"created_by": "us", "approved_by": "us"}
    held = ProviderPriceListRow(
        provider="acme", version=1, starts_us=NOW_US, rates=[rate], **once, **by
    )
    tenants.change(audit, lambda session: session.merge(held))
    with pytest.raises(SettingsError):
        bootstrap(tenants, settings(far("later")), NOW_US - 1)
    bootstrap(tenants, settings(far("later")), NOW_US)
    assert set(pools_of(tenants)) == {"later"}


async def test_model_that_a_pool_still_serves_is_not_disabled(tenants: TenantStore) -> None:
    bootstrap(tenants, settings(pool()), NOW_US)
    with pytest.raises(ApiError, match="a pool still serves"):
        await serving(tenants).disable_model("tale")


def test_new_key_of_a_data_folder_replaces_the_old_one_and_keeps_its_name(
    tenants: TenantStore,
) -> None:
    bootstrap(tenants, settings(), NOW_US)
    bootstrap(tenants, settings(api_key="sk-sluice-second"), NOW_US)
    assert tenants.key_by_hash(key_digest("sk-sluice-first")) is None
    assert tenants.key_by_hash(key_digest("sk-sluice-second")) is not None
    assert len(tenants.every(ApiKey)) == 1
    assert len(tenants.every(Limits)) == 1


@pytest.mark.parametrize("table", ["model", "pool", "organization"])
def test_of_two_gateways_that_start_at_once_neither_fails(postgres: Databases, table: str) -> None:
    """The other one is whole in the instant before this one writes its first row of the table."""
    wanted = settings(pool())
    with postgres.copy_of("template0") as url:
        migrate(url)
        here, there = open_store(url), open_store(url)
        others: list[None] = []

        def overtake(conn: Any, cursor: Any, statement: str, *_: Any) -> None:
            if not others and statement.startswith(f"INSERT INTO {table} "):
                others.append(None)
                bootstrap(TenantStore(there), wanted, NOW_US)

        event.listen(here.engine, "before_cursor_execute", overtake)
        try:
            bootstrap(TenantStore(here), wanted, NOW_US)
            assert others
            assert list(pools_of(TenantStore(here))) == ["tale-reserved"]
        finally:
            here.close()
            there.close()
